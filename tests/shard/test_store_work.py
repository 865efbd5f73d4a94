"""The work on a shard's store: commits are written by a thread, retried, and all written at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from shard.contents.errors import StoreError
from shard.core import ShardCore
from shard.store.journal import Commit, Journal
from shard.store.store import Store
from shard.store_work import RETRY_SECONDS, StoreWork
from shard.turns.room import UNWRITTEN
from tests.shard.store.test_flushes import Loop

QUEUE = 7


class World:
    """A shard's core, its store and the work on the store. The loop runs until a turn is to be finished."""

    def __init__(self, gauges: Gauges, path: Path) -> None:
        self.loop = Loop()
        self.path = path
        self.store = Store(path, 1 << 24, durable=False, epoch=1)
        self.journal = Journal(self.store.read)
        self.core = ShardCore(0, gauges, Settings(), 0, self.store.starts, self.journal)
        self.work = StoreWork(self.loop, self.core, self.store, self.journal, 0, self.loop.stop)
        self.broken = False
        self.write = self.store.write
        self.store.write = self.write_or_fail  # type: ignore[method-assign]

    def write_or_fail(self, commit: Commit) -> None:
        """Write a commit, unless the disk is broken."""
        if self.broken:
            raise StoreError(self.path, "broken")
        self.write(commit)

    def stored(self) -> list[tuple[int, int, int]]:
        """Return queue, sequence and number of all counts in the store."""
        self.store.close()
        again = Store(self.path, 1 << 24, durable=False, epoch=1)
        found = list(again.numbers("counts"))
        again.close()
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with (
        capture_logs(),
        Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid()) as gauges,
    ):
        world = World(gauges, tmp_path / "0")
        yield world
        world.loop.close()


def test_one_commit_at_a_time_is_written_and_finishes_a_turn(world: World) -> None:
    world.journal.count(QUEUE, 1, 3)
    world.work.begin()
    assert world.work.writing is not None and world.core.commits.under_way
    world.journal.count(QUEUE, 2, 4)
    first, _ = world.work.writing
    world.work.begin()
    assert world.work.writing[0] is first, "the next waits for it"
    world.loop.run_forever()
    assert world.work.writing is None and not world.core.commits.under_way
    world.work.end()
    assert world.stored() == [(QUEUE, 1, 3), (QUEUE, 2, 4)], "the rest is written at the end"


def test_a_commit_that_fails_closes_the_gate_and_is_retried_with_what_came_since(world: World) -> None:
    room = world.core.gate.room
    world.broken = True
    world.journal.count(QUEUE, 1, 3)
    world.work.begin()
    world.loop.run_forever()
    assert world.work.resting and UNWRITTEN in room.causes
    world.journal.count(QUEUE, 2, 4)
    world.work.begin()
    assert world.work.writing is None, "it rests"
    world.broken = False
    world.loop.clock += RETRY_SECONDS
    world.loop.run_forever()
    assert not world.work.resting
    world.work.begin()
    world.loop.run_forever()
    assert not room.causes
    world.work.end()
    assert world.stored() == [(QUEUE, 1, 3), (QUEUE, 2, 4)]


@pytest.mark.parametrize("broken", [False, True])
def test_the_end_knows_whether_the_commit_in_flight_was_written(world: World, broken: bool) -> None:
    """The loop does not run again: the result of the commit is found with its job."""
    world.journal.count(QUEUE, 1, 3)
    world.broken = broken
    world.work.begin()
    world.work.writer.end()
    world.broken = False
    world.work.end()
    assert world.stored() == [(QUEUE, 1, 3)]


def test_a_disk_is_not_checked_once_the_shard_is_ending(world: World) -> None:
    world.work.ending = True
    world.work.check_disk_room()
    world.work.carry(lambda: pytest.fail("nothing is carried either"), lambda error: None)
    world.work.end()
