"""Code in the documentation: blocks of a language are of that language, commands and their options exist, and so do the
settings that are named.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import orjson
import pytest
import typer.main
import yaml
from markdown_it import MarkdownIt

from ops import cli
from ops.deferred import Placeholder
from penstock.settings import Settings
from penstock.settings.sources import check_known, known_keys, leaves
from penstock.telemetry.schema import TABLES
from tests.ops.test_documentation import PAGES, ROOT

ENDS = {"|", ">", ">>", "2>>", "<", "&", "&&", "#", ";"}
"""Words after which a line is no more of the command."""
COMMAND = re.compile(r"(?:\$ )?(?:\S.*[|;&] |sudo -u \S+ )?(?P<command>penstock .*?)(?:\s{3,}.*)?$")
"""A line with a command; words that stand apart after it explain it."""
OUTPUT = {"penstock ready amqp=HOST:PORT pid=PID"}
SET = re.compile(r"--set ([a-z_.]+)=")
OF_CONTROL_GROUPS = {"memory.limit_in_bytes", "memory.max"}
COLUMNS = {f"{table.name}.{column.name}" for table in TABLES.values() for column in table.columns}
SECTIONS = {key.split(".")[0] for key in known_keys(Settings) if "." in key}
SETTING = re.compile(rf"(?:{'|'.join(sorted(SECTIONS))})(?:\.[a-z_0-9]+)+")


def parts(kinds: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of pages that are of one of the kinds: with the place, the language, and the text."""
    for page in PAGES:
        for token in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
            for part in (token, *(token.children or ())):
                if part.type in kinds:
                    yield f"{page.relative_to(ROOT)}:{(token.map or [0])[0] + 1}", part.info, part.content


BLOCKS = [(place, language, text) for place, language, text in parts(("fence",)) if language]
SPANS = [(place, " ".join(text.replace("\\|", "|").split())) for place, _, text in parts(("code_inline",))]


def check_toml(text: str) -> None:
    for key in leaves(Settings, tomllib.loads(text)):
        check_known(Settings, key, "the documentation")


def check_python(text: str) -> None:
    """Compile it, and find what it imports from penstock."""
    tree: Any = compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("penstock", "pyspark_penstock")):
            module = import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names), node.module


def check_shell(text: str) -> None:
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def check_console(text: str) -> None:
    check_shell("\n".join(line[2:] for line in text.splitlines() if line.startswith("$ ")))


CHECKS: dict[str, Callable[[str], Any]] = {
    "toml": check_toml,
    "python": check_python,
    "json": orjson.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "sh": check_shell,
    "console": check_console,
}


@pytest.mark.parametrize(
    ("place", "language", "text"), BLOCKS, ids=[f"{place}-{language}" for place, language, _ in BLOCKS]
)
def test_a_block_is_of_its_language(place: str, language: str, text: str) -> None:
    CHECKS[language](text)


def commands() -> Iterator[tuple[str, str]]:
    """Yield the command lines of blocks and of code in the text, with their places."""
    for place, _, text in parts(("fence", "code_block")):
        for line in text.replace("\\\n", " ").splitlines():
            if found := COMMAND.match(line.strip()):
                yield place, found["command"]
    yield from ((place, text) for place, text in SPANS if text.startswith("penstock ") and text not in OUTPUT)


def words_of(line: str) -> list[str]:
    words: list[str] = []
    for word in shlex.split(line, comments=True)[1:]:
        if word in ENDS:
            break
        words.append(word)
    return words


def options_of(command: Any) -> dict[str, Any]:
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(cli.app)


LINES = sorted({line: place for place, line in commands()}.items())


@pytest.mark.parametrize(("line", "place"), LINES)
def test_a_command_and_its_options_exist(line: str, place: str, root: Any) -> None:
    words = iter(words_of(line))
    level, options = root, options_of(root)
    for word in words:
        name, equals, _ = word.strip("[]").partition("=")
        below = getattr(level, "commands", None)
        if name.startswith("-"):
            assert name in options, name
            if below and not equals and not options[name].is_flag:
                next(words)
        elif below and name != "…":
            chosen = [below[each] for each in name.split("|")][-1]
            level = chosen.load() if isinstance(chosen, Placeholder) else chosen
            options |= options_of(level)


def test_settings_that_are_named_exist() -> None:
    """The changelog names those that are gone."""
    named = {text: place for place, text in SPANS if SETTING.fullmatch(text) and not place.startswith("CHANGELOG")}
    known = set(known_keys(Settings))
    sections = {key.rpartition(".")[0] for key in known}
    assert len(named) > 100
    assert {
        text: place for text, place in named.items() if text not in known | sections | COLUMNS | OF_CONTROL_GROUPS
    } == {}


@pytest.mark.parametrize("key", sorted({key for page in PAGES for key in SET.findall(page.read_text())}))
def test_a_setting_that_is_set_on_the_command_line_exists(key: str) -> None:
    check_known(Settings, key, "by --set")
