"""Depths of queues that move: a queue stays as deep as it was, whatever its old and new slots in the gauges say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from acceptor.gates.move_depths import MoveDepths
from penstock.memory.gauges import Gauges
from router.model.records import Queue

OLD, NEW = 5, 6
QUEUE = Queue("/", "orders", 1, OLD, 0, True, False, None, {}, [], [])
MOVED = replace(QUEUE, slot=NEW, shard=1)


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=2, queues=8, pid=os.getpid()) as made:
        yield made


def write(gauges: Gauges, slot: int, ready: int, unacked: int = 0, id: int = 1) -> None:
    gauges.queue_open(slot, id, "/", "orders", 1)
    gauges.queue_write(slot, ready, unacked, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, whole_bytes=100 * ready)


def test_a_queue_that_is_away_is_as_deep_as_when_it_left(gauges: Gauges) -> None:
    depths = MoveDepths(gauges)
    write(gauges, OLD, 7, unacked=3)
    depths.leaves(QUEUE)
    assert 1 in depths and len(depths) == 1
    gauges.queue_close(OLD)
    assert depths.depth(QUEUE) == (10, 700), "the old home has given the slot up"
    assert depths.depth(MOVED) == (10, 700), "the new home has not written to its own yet"
    write(gauges, OLD, 5000, id=2)
    assert depths.depth(QUEUE) == (10, 700), "another queue has the slot"


def test_the_largest_depth_seen_counts(gauges: Gauges) -> None:
    """The new home has taken in only some of the messages so far."""
    depths = MoveDepths(gauges)
    write(gauges, OLD, 10)
    depths.leaves(QUEUE)
    write(gauges, OLD, 12)
    assert depths.depth(QUEUE) == (12, 1200)
    write(gauges, NEW, 4)
    assert depths.depth(MOVED) == (12, 1200)


def test_at_home_the_gauges_say_how_deep_it_is(gauges: Gauges) -> None:
    depths = MoveDepths(gauges)
    write(gauges, OLD, 10)
    depths.leaves(QUEUE)
    depths.is_home(1)
    write(gauges, NEW, 4)
    assert 1 not in depths and not len(depths)
    assert depths.depth(MOVED) == (4, 400)
    write(gauges, NEW, 2)
    assert depths.depth(MOVED) == (2, 200)


def test_a_later_move_begins_anew(gauges: Gauges) -> None:
    depths = MoveDepths(gauges)
    write(gauges, OLD, 10)
    depths.leaves(QUEUE)
    depths.is_home(1)
    depths.is_home(1)
    write(gauges, NEW, 4)
    depths.leaves(MOVED)
    gauges.queue_close(NEW)
    assert depths.depth(MOVED) == (4, 400)
