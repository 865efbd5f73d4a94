"""The wire format has a new number whenever what the processes of a node exchange has changed."""

from __future__ import annotations

import ast
import hashlib
from itertools import chain

from penstock.node.wire_format import WIRE_FORMAT
from tests.twins import ROOT

DEFINITIONS = (
    "penstock/batch/batch_cy.py",
    "penstock/batch/consumer_ids.py",
    "penstock/batch/settlement_rows.py",
    "penstock/bus/__init__.py",
    "penstock/bus/packing.py",
    "penstock/bus/process_messages.py",
    "penstock/bus/router_messages.py",
    "penstock/bus/to_acceptor.py",
    "penstock/bus/to_shard.py",
    "penstock/bus/turn_cy.py",
    "penstock/memory/shared_counts.py",
    "penstock/memory/shared_rates.py",
    "penstock/node/node.py",
    "penstock/node/runtime_paths.py",
    "router/model/records.py",
)
"""The modules that define it, but for the layout of the gauges, which has a number of its own."""
DIGEST = "7ca4c90e5e2066e6"
"""Of their code. If it differs: has anything changed that a process of the release before would not understand? Then
WIRE_FORMAT takes its next number. Either way the new digest stands here.
"""


def code(name: str) -> list[str]:
    """Return the lines of a module's code, without those of comments and docstrings."""
    source = (ROOT / name).read_text()
    lines = dict(enumerate(source.splitlines(), 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                del lines[number]
    return [line for line in lines.values() if line.strip() and not line.lstrip().startswith("#")]


def test_a_change_of_the_definitions_is_noticed() -> None:
    layout = next(
        line for line in (ROOT / "penstock/memory/layout.pyx").read_text().splitlines() if "LAYOUT_VERSION =" in line
    )
    lines = [layout, *chain.from_iterable(map(code, DEFINITIONS))]
    found = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (WIRE_FORMAT, found) == (1, DIGEST)
