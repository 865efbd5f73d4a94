"""Peaks of queues while they hold channels, against a list of all depths for each hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.queue_gate import QueueGate
from acceptor.holding.peaks import Peak, Peaks
from tests.simulator.joined.node import Node

STEPS = st.lists(st.tuples(st.sampled_from(["begin", "end", "look"]), st.integers(0, 5)))
NOTHING_ELSE = [0] * 16


@pytest.fixture(scope="module")
def queue_gate() -> Iterator[QueueGate]:
    with Node() as node:
        node.declare("full", **{"x-flow-stop-count": 1})
        node.settle()
        yield node.core(0).gates.queue_gates[node.queue("full").queue_id]


@given(steps=STEPS)
def test_each_has_the_deepest_since_it_began(queue_gate: QueueGate, steps: list[tuple[str, int]]) -> None:
    peaks = Peaks()
    held: list[tuple[Peak, list[int]]] = []
    for step, depth in steps:
        queue_gate.gauges.queue_write(queue_gate.slot, depth, 0, *NOTHING_ELSE)
        for _, seen in held:
            seen.append(depth)
        if step == "begin":
            held.append((peaks.begin(queue_gate), [depth]))
        elif step == "end" and held:
            peak, seen = held.pop(depth % len(held))
            peaks.end(queue_gate, peak)
            assert peak.depth == max(seen)
        else:
            peaks.update()
    for peak, seen in held:
        peaks.end(queue_gate, peak)
        assert peak.depth == max(seen)
    assert not peaks.lines
