"""Commands are imported when they are called, and what takes long to import only where an answer needs it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer.main

from ops import cli
from ops.deferred import Placeholder
from tests.ops.commanded import Commanded
from tests.ops.conftest import StartNode
from tests.twins import ROOT

SLOW = {
    *("argon2", "asyncio", "lmdb", "matplotlib", "pydantic_settings", "pyspark", "re2", "router", "structlog", "zmq"),
    "penstock.settings.model",
}
TABLES = {"rich"}
PROGRAM = """
import atexit, sys
from ops.entry import main
atexit.register(lambda: print("imported", *sys.modules))
main()
"""


def imported_by(*words: str) -> set[str]:
    """Return the modules that a command imports. AssertionError if it fails; `ping` may find processes silent."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=False, env={}
    )
    assert (done.returncode, done.stderr) == (0, "") or "has been silent for" in done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words", [["--version"], ["vhost", "add", "new"], ["connection", "list", "--json"]], ids=" ".join
)
def test_a_line_is_printed_without_what_takes_long_to_import(words: list[str], commanded: Commanded) -> None:
    assert imported_by("--data", str(commanded.data), *words) & (SLOW | TABLES) == set()


@pytest.mark.parametrize("words", [["--help"], ["connection", "list"], ["queue", "list"], ["flow"]], ids=" ".join)
def test_so_is_a_table_apart_from_what_draws_it(words: list[str], commanded: Commanded) -> None:
    assert imported_by("--data", str(commanded.data), *words) & SLOW == set()


@pytest.mark.broker
def test_shared_memory_is_read_without_what_takes_long_to_import(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    for words in (["ping"], ["status", "--json"]):
        assert imported_by(*words, "--data", str(node.data)) & (SLOW | TABLES) == set()
    assert imported_by("status", "--data", str(node.data)) & SLOW == set()


GROUP: Any = typer.main.get_group(cli.app)


@pytest.mark.parametrize("deferred", cli.COMMANDS, ids=lambda deferred: deferred.name)
def test_a_command_says_of_itself_what_the_list_says(deferred: Any) -> None:
    command = Placeholder(deferred).load()
    assert command.name == deferred.name
    assert command.help is not None and command.help.startswith(deferred.summary)
    assert command.help.count(deferred.summary) == 1
    module, _, name = deferred.target.partition(":")
    target = getattr(import_module(module), name)
    assert not isinstance(target, typer.Typer) or not isinstance(target.info.help, str), "its summary is in ops.cli"


def commands_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command, or those of a group, by their names."""
    inner = getattr(command, "commands", None)
    if inner is None or command.invoke_without_command:
        yield name, command
    for word, each in (inner or {}).items():
        yield from commands_of(f"{name} {word}", each)


@pytest.mark.parametrize("deferred", cli.COMMANDS, ids=lambda deferred: deferred.name)
def test_every_command_shows_an_example_that_is_one(deferred: Any) -> None:
    for name, command in commands_of(deferred.name, Placeholder(deferred).load()):
        _, _, example = (command.help or "").partition("Example: ")
        words = shlex.split(example.partition(" < ")[0])
        assert words[: len(name.split()) + 1] == ["penstock", *name.split()], name
        command.make_context(name, words[len(name.split()) + 1 :])


def test_all_commands_are_listed_in_order() -> None:
    assert list(GROUP.commands) == [deferred.name for deferred in cli.COMMANDS]
