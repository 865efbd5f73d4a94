"""The gate of a queue with marks: the room that it reports to most publishes is never more than there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptor.gates.queue_gate import QueueGate
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges

SLOT = 5
DEPTHS = (0, 1, 7, 499, 500, 501, 900, 999, 1000, 1001, 5000)


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=3, shards=1, queues=8, pid=os.getpid()) as made:
        made.queue_open(SLOT, 1, "/", "orders", 1)
        yield made


def deep(gauges: Gauges, count: int, nbytes: int, saturated: bool = False, aside: bool = False) -> None:
    gauges.queue_write(SLOT, count, 0, nbytes, 0, 0, 0, 0, 0, 0, 0, 1, saturated, 1, 0, 0, 0, 0, aside)


def queue_gate_of(gauges: Gauges, acceptors: int, marks: Marks) -> QueueGate:
    return QueueGate(gauges, acceptors, 1, SLOT, "/", "orders", QueueLimits(None, None, "flow", marks))


@pytest.mark.parametrize("acceptors", [1, 2, 3])
@pytest.mark.parametrize("marks", [Marks(1000, 800), Marks(1, 0), Marks(0, 0, 1000, 900), Marks(1000, 800, 700, 700)])
def test_some_room_is_no_more_than_room_and_none_only_where_that_is(
    gauges: Gauges, acceptors: int, marks: Marks
) -> None:
    queue_gate = queue_gate_of(gauges, acceptors, marks)
    for depth in DEPTHS:
        deep(gauges, depth, depth)
        for under_way in DEPTHS:
            queue_gate.in_flight = queue_gate.in_flight_bytes = under_way
            (some, some_bytes), (count, nbytes) = queue_gate.some_room(), queue_gate.room()
            assert some <= count, (depth, under_way)
            assert some_bytes <= nbytes, (depth, under_way)
            assert (some > 0) == (count > 0), (depth, under_way)
            assert (some_bytes > 0) == (nbytes > 0), (depth, under_way)


def test_some_room_is_none_of_a_saturated_queue_however_shallow(gauges: Gauges) -> None:
    queue_gate = queue_gate_of(gauges, 1, Marks(1000, 800))
    deep(gauges, 3, 3)
    assert queue_gate.some_room()[0] == 500
    deep(gauges, 3, 3, saturated=True)
    assert queue_gate.some_room() == (0, 0)


def test_some_room_of_a_queue_that_stands_aside_or_is_gone_is_all(gauges: Gauges) -> None:
    queue_gate = queue_gate_of(gauges, 1, Marks(1000, 800))
    deep(gauges, 3, 3, aside=True)
    assert queue_gate.some_room() == queue_gate.room()
    deep(gauges, 3, 3, saturated=True)
    queue_gate.close()
    assert queue_gate.some_room() == queue_gate.room()
    assert queue_gate.some_room()[0] > 10**12
