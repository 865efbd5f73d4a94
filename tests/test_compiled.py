"""Compiled modules are compiled with their types, and their inner loops do not call Python.

Without its `.pxd` a module still builds, and without the type of one local it still works, only many times slower.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from Cython.Build import cythonize
from setuptools import Extension  # type: ignore[import-untyped]

from tests.twins import ROOT, load_compiled

pytestmark = pytest.mark.long

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("penstock", "router", "shard", "acceptor")
    for path in (ROOT / package).rglob("*_cy.py")
)


def source_of(name: str, suffix: str = ".py") -> Path:
    return (ROOT / name.replace(".", "/")).with_suffix(suffix)


def test_there_are_compiled_modules() -> None:
    assert len(MODULES) > 5


@pytest.mark.parametrize("name", MODULES)
def test_a_module_was_compiled_with_its_types(name: str) -> None:
    """The declarations of its `.pxd` exist in C: types without a dict, methods in a table, exported functions."""
    module = load_compiled(name)
    declared = source_of(name, ".pxd").read_text()
    exported = getattr(module, "__pyx_capi__", {})
    for function in re.findall(r"^cp?def (?!class )[^(=\n]*?(\w+)\(", declared, re.MULTILINE):
        assert function in exported
    for block in re.split(r"^(?=cdef class )", declared, flags=re.MULTILINE)[1:]:
        kind = getattr(module, re.split(r"[ (:]", block)[2])
        assert kind.__dictoffset__ == 0, f"{kind} is an ordinary class"
        if re.search(r"^    cp?def [^(=\n]*\(", block, re.MULTILINE):
            assert hasattr(kind, "__pyx_vtable__"), f"{kind} has no table of methods"


# Code that runs for every message, settlement or delivery: a function's "body", or only its loops.
HOT: dict[str, dict[str, str]] = {
    "penstock.batch.batch_cy": {
        "Batch.body_bytes": "loops",
        "Batch.all_flags": "loops",
        "Batch.survey": "loops",
        "Batch.fit": "loops",
        "BatchBuilder.open_entry": "body",
        "BatchBuilder.append": "body",
        "BatchBuilder.write": "body",
        "BatchBuilder.room": "body",
        "BatchBuilder.extend": "loops",
    },
    "penstock.amqp.scan_cy": {
        "Scanner.scan": "while",
        "Scanner.publish_frame": "body",
        "Scanner.repeats": "body",
        "Scanner.whole_content": "body",
        "Scanner.stream": "body",
        "Scanner.settle_frame": "body",
        "SettleRun.add": "body",
        "content_flags": "body",
        "asks_for_direct_reply": "body",
        "plain_number": "body",
        "table_flags": "body",
        "value_size": "body",
    },
    "penstock.amqp.encode_cy": {
        "Output.contents": "loops",
        "Output.body": "loops",
        "Output.acks": "loops",
        "Output.reserve": "body",
    },
    "acceptor.tls.records_cy": {"Records.take": "while"},
    "acceptor.links.unacked_cy": {
        "Settlements.add": "body",
        "UnackedTags.settle": "loops",
        "UnackedTags.settle_one": "body",
        "UnackedTags.settle_up_to": "body",
        "UnackedTags.settle_all": "loops",
        "UnackedTags.find": "body",
        "UnackedTags.emit": "body",
        "UnackedTags.compact": "body",
    },
    "router.model.rendezvous_cy": {
        "Rendezvous.choose": "loops",
        "mixed": "body",
        "score_of": "body",
    },
}
# Lines that call Python all the same, with the reasons.
NONE_CHECK = "the call is the error that None has no length, never made"
GROWTH = "when a buffer doubles"
A_RUN = "once for a run, not for each of its messages"
EXCEPTIONS = {
    # penstock.batch.batch_cy
    "if (self.count + 1) * ENTRY_SIZE > len(self.entries):": NONE_CHECK,
    "resize(self.entries, max(2 * len(self.entries), 16 * ENTRY_SIZE))": GROWTH,
    # penstock.amqp.scan_cy
    "if self.assemblies and channel in self.assemblies:": "asks the dict only while some content is not whole",
    "if run is None or len(run.frame) != size + 8 or not equal(p, pos, address_of_bytes(run.frame), 0, size + 8):": (
        NONE_CHECK
    ),
    "if builder.block is not None and builder.used + len(run.address) + size + body_size > builder.capacity:": (
        NONE_CHECK
    ),
    "builder.append(address_of_bytes(run.address), len(run.address), p, pos + 7, size, body, body_size, flags)": (
        NONE_CHECK
    ),
    "self.events.append(run)": A_RUN,
    "self.begin(channel, Assembly(run))": "a content is not whole",
    "self.settling = SettleRun(channel)": A_RUN,
    "self.events.append(self.settling)": A_RUN,
    "if (self.count + 1) * SETTLEMENT_SIZE > len(self.rows):": NONE_CHECK,
    "resize(self.rows, max(2 * len(self.rows), 4 * SETTLEMENT_SIZE))": GROWTH,
    # penstock.amqp.encode_cy
    "self.refer(memoryview(batch.contents)[start + offset : start + offset + size])": "for 16 KiB and more at a time",
    "if at + nbytes > len(self.chunk):": NONE_CHECK,
    "resize(self.chunk, max(2 * len(self.chunk), at + nbytes, 512))": GROWTH,
    # acceptor.unacked_cy
    "builder = builders[shard_of(consumer)]": (
        "a list that is None, and what is in it of another type: errors, never made"
    ),
    "if at + SETTLED_ROW > len(self.rows):": NONE_CHECK,
    "resize(self.rows, max(2 * len(self.rows), 8 * SETTLED_ROW))": GROWTH,
    # router.model.rendezvous_cy
    "for member in self.members:": "steps through a list",
    "if best is None or score < least or (score == least and member.name < best.name):": (
        "two members with the same score, of 2**53 scores"
    ),
}

# Cython gives each line a weight: 5 for a call of Python's C API, 2 for a call of its own wrappers, 1 for a macro that
# counts references. Setting or getting a typed reference weighs 2; arithmetic on an undeclared local, 4 or more.
HEAVY = 3


class Line(NamedTuple):
    number: int
    text: str
    weight: int


@cache
def annotated(name: str) -> dict[int, int]:
    """Return the weight of each line of a module, compiled with the directives of setup.py."""
    path = str(source_of(name).relative_to(ROOT))
    with TemporaryDirectory() as build:
        cythonize(  # type: ignore[no-untyped-call]
            [Extension(name, [path])],
            build_dir=build,
            annotate=True,
            force=True,
            quiet=True,
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        )
        page = (Path(build) / path).with_suffix(".html").read_text()
    found = re.findall(r'class="cython line score-(\d+)"[^>]*>(?:[^<]|&\w+;)*<span class="">\s*(\d+)</span>', page)
    weights = {int(number): int(score) for score, number in found}
    assert len(weights) >= len(source_of(name).read_text().splitlines()) - 1, "the annotation is not read rightly"
    assert max(weights.values()) > HEAVY
    return weights


def function(tree: ast.Module, name: str) -> ast.FunctionDef:
    scope: ast.Module | ast.ClassDef = tree
    *classes, last = name.split(".")
    for each in classes:
        scope = next(node for node in scope.body if isinstance(node, ast.ClassDef) and node.name == each)
    return next(node for node in scope.body if isinstance(node, ast.FunctionDef) and node.name == last)


def hot_lines(name: str, where: str, what: str) -> Iterator[Line]:
    source = source_of(name).read_text()
    node = function(ast.parse(source), where)
    loops = {"loops": (ast.For, ast.While), "while": (ast.While,), "body": ()}[what]
    parts = [each for each in ast.walk(node) if isinstance(each, loops)] if loops else node.body
    assert parts, f"{where} has no {what}"
    weights = annotated(name)
    texts = source.splitlines()
    numbers = {n for part in parts for n in range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    for number in sorted(numbers):
        yield Line(number, texts[number - 1].strip(), weights.get(number, 0))


@pytest.mark.parametrize("name", HOT)
def test_inner_loops_stay_clear_of_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    heavy = [
        line
        for where, what in HOT[name].items()
        for line in hot_lines(name, where, what)
        if line.weight >= HEAVY and "self.fail(" not in line.text and line.text not in EXCEPTIONS
    ]
    assert not heavy, "\n".join(f"{name}:{number}: weight {weight}: {text}" for number, text, weight in heavy)


def test_no_exception_outlives_its_line() -> None:
    lines = {line.strip() for name in HOT for line in source_of(name).read_text().splitlines()}
    assert EXCEPTIONS.keys() <= lines
