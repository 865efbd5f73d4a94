"""The weight of messages in flight to a shard, by the queues that they are for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptor.links.weights import LAGGING, PASSING, SHALLOW_BYTES, SHALLOW_COUNT, WHOLE, weight_of
from penstock.memory.gauges import Gauges

SLOT, OTHER = 5, 6


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=1, queues=8, pid=os.getpid()) as made:
        for slot in (SLOT, OTHER):
            made.queue_open(slot, slot, "/", f"q{slot}", 1)
        yield made


def write(gauges: Gauges, slot: int, ready: int, unacked: int = 0, size: int = 0, consumers: int = 0) -> None:
    gauges.queue_write(slot, ready, unacked, 0, 0, 0, 0, 0, 0, 0, consumers, 1, 0, 0, 0, 0, 0, 0, whole_bytes=size)


@pytest.mark.parametrize(
    ("ready", "unacked", "size", "consumers", "weight"),
    [
        (0, 0, 0, 0, PASSING),
        (SHALLOW_COUNT, 0, SHALLOW_BYTES, 1, PASSING),
        (SHALLOW_COUNT + 1, 0, 0, 0, WHOLE),
        (0, SHALLOW_COUNT + 1, 0, 1, LAGGING),
        (1, 0, SHALLOW_BYTES + 1, 0, WHOLE),
        (1, 0, SHALLOW_BYTES + 1, 3, LAGGING),
    ],
)
def test_by_depth_and_whether_the_queue_has_consumers(
    gauges: Gauges, ready: int, unacked: int, size: int, consumers: int, weight: int
) -> None:
    write(gauges, SLOT, ready, unacked, size, consumers)
    assert weight_of(gauges, (SLOT,)) == weight


def test_of_several_queues_the_heaviest_counts(gauges: Gauges) -> None:
    assert weight_of(gauges, (SLOT, OTHER)) == PASSING
    write(gauges, SLOT, SHALLOW_COUNT + 1)
    assert weight_of(gauges, (SLOT, OTHER)) == weight_of(gauges, (OTHER, SLOT)) == WHOLE
    write(gauges, OTHER, SHALLOW_COUNT + 1, consumers=1)
    assert weight_of(gauges, (SLOT, OTHER)) == weight_of(gauges, (OTHER, SLOT)) == LAGGING


def test_without_a_queue_messages_count_whole(gauges: Gauges) -> None:
    """Such messages are answers for reply consumers, for example."""
    assert weight_of(gauges, ()) == WHOLE
    assert PASSING < WHOLE < LAGGING
