"""No module, class, function, field or setting has a retired word in its name (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from penstock.settings import Settings
from penstock.settings.sources import known_keys
from tests.house import PACKAGES, ROOT, Module, modules_of

RETIRED = {
    "inlet": "queue gate",
    "manifold": "multiplying gate",
    "stranger": "unprivileged queue",
    "obedience": "flow compliance",
    "lately": "recent samples",
    "parted": "drained",
    "homed": "re-attached",
    "octets": "bytes",
    "life": "incarnation",
    "lives": "incarnations",
    "session": "channel",
    "look": "poll, check, recheck",
    "looked": "checked",
    "looking": "checking",
    "tell": "report, announce",
    "told": "reported, notified",
    "hear": "receive",
    "heard": "received",
}
"""Each retired word, with its replacement."""
OF_THE_FIELD = re.compile("life_cycle|look_ahead|look_up")
"""Established terms that contain a retired word."""
WITH_SESSIONS = ("console", "load", "pipeline", "pyspark_penstock", "tests")
"""Packages that have sessions: those of users in browsers, of Spark, of pytest, or of a load's client."""
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def words_of(name: str) -> set[str]:
    """Return the words of an identifier or key in lower case, with and without a plural's s."""
    found = {word.lower() for word in WORDS.findall(OF_THE_FIELD.sub("", name))}
    return found | {word.removesuffix("s") for word in found}


def names_of(module: Module) -> Iterator[str]:
    """Yield the names that a module defines: its own, and those of classes, functions, parameters, variables and
    attributes.
    """
    yield module.name
    for node in module.nodes:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_name_has_a_retired_word(package: str) -> None:
    retired = RETIRED.keys() - ({"session"} if package in WITH_SESSIONS else set())
    found = {
        f"{module.name}: {name}, use {RETIRED[word]}"
        for module in modules_of([package])
        for name in {*names_of(module)}
        if not name.startswith("test_")  # a sentence
        for word in words_of(name) & retired
    }
    assert not found


def test_no_setting_has_a_retired_word() -> None:
    assert not [key for key in known_keys(Settings) if words_of(key) & RETIRED.keys()]


def test_the_glossary_says_what_to_use_instead() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    retired = glossary[glossary.index("## Retired words") :]
    missing = [word for word in RETIRED if not re.search(rf"\b{word}\b", retired)]
    assert not missing
