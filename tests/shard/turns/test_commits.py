"""Commits: turns and actions are safe once all that they wrote is in the store, or at once if they wrote nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.bus.to_acceptor import Rejected
from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from shard.store.journal import Commit, Journal
from shard.turns.commits import Commits
from shard.turns.gate import Gate
from shard.turns.link import Link, safe_turn
from shard.turns.state import ShardState
from tests.shard.store.test_journal import nothing

ACCEPTOR, SHARD = b"acceptor.1.4", b"shard.1.2"


class World:
    """The commits of a shard with links of an acceptor and of another shard. `done` are the actions run."""

    def __init__(self, gauges: Gauges) -> None:
        self.journal = Journal(nothing)
        self.state = ShardState(0, gauges, 0, journal=self.journal)
        self.gate = Gate(0, gauges, Settings(), 0, lambda *flow: None)
        self.commits = Commits(self.state, self.gate)
        self.acceptor, self.shard = Link(ACCEPTOR), Link(SHARD)
        self.state.links = {ACCEPTOR: self.acceptor, SHARD: self.shard}
        self.done: list[str] = []

    def take_in(self, turn: int, writes: bool = True) -> None:
        """Apply a turn of both links, with an action that waits for it."""
        self.acceptor.received = self.shard.received = turn
        if writes:
            self.journal.count(7, turn, 1)
        self.commits.when_kept(lambda: self.done.append(f"after {turn}"))

    def handed_over(self) -> Commit:
        commit = self.commits.hand_over()
        assert commit is not None
        return commit

    def safe(self) -> tuple[int, int]:
        """Return the safe turns of the acceptor and of the other shard."""
        return self.acceptor.safe, self.shard.safe


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with (
        capture_logs(),
        Gauges.create(tmp_path / "gauges", epoch=1, acceptors=2, shards=1, queues=1, pid=os.getpid()) as gauges,
    ):
        yield World(gauges)


def test_turns_that_write_nothing_are_safe_at_once(world: World) -> None:
    world.take_in(3, writes=False)
    assert world.commits.hand_over() is None
    world.commits.make_safe()
    assert (world.safe(), world.done) == ((3, 3), ["after 3"])
    assert world.state.gauges.pair_read_safe(1, 0) == (4, 3)
    world.commits.make_safe()
    assert world.done == ["after 3"]


def test_a_commit_makes_safe_what_was_applied_when_it_was_handed_over(world: World) -> None:
    world.take_in(1)
    world.commits.make_safe()
    commit = world.handed_over()
    assert {identity: safe_turn(record) for identity, record in commit.links.items()} == {ACCEPTOR: 1, SHARD: 1}
    world.take_in(2, writes=False)
    world.commits.make_safe()
    assert (world.safe(), world.done, world.commits.under_way) == ((0, 0), [], True)
    assert world.commits.hand_over() is None, "one at a time"
    world.commits.written()
    assert (world.safe(), world.done, world.commits.under_way) == ((1, 1), ["after 1"], False)
    world.commits.make_safe()
    assert (world.safe(), world.done) == ((2, 2), ["after 1", "after 2"])


def test_the_gauges_do_not_tell_of_turns_of_which_something_was_refused(world: World) -> None:
    """A later incarnation that knew only the number of the turn would confirm a refused message."""
    world.take_in(1)
    world.acceptor.verdicts.append(Rejected(1, 0, 7, 0, 1))
    world.handed_over()
    world.commits.written()
    assert world.acceptor.safe == 1
    assert world.state.gauges.pair_read_safe(1, 0) == (0, 0)


def test_a_failed_commit_comes_with_the_next_and_holds_producers(world: World) -> None:
    world.take_in(1)
    world.commits.failed(world.handed_over(), "No space left on device")
    assert (world.safe(), world.done, world.commits.under_way) == ((0, 0), [], False)
    assert world.gate.room.reason == "its store cannot be written: No space left on device"
    world.take_in(2)
    commit = world.handed_over()
    assert len(commit.counts) == 2
    world.commits.written()
    assert (world.safe(), world.done) == ((2, 2), ["after 1", "after 2"])
    assert not world.gate.room.saturated


@pytest.mark.parametrize("fails", [False, True])
def test_other_shards_and_actions_wait_for_the_flush(world: World, fails: bool) -> None:
    """The sender of a dead letter forgets it once it is safe here; an acceptor keeps nothing for power failures."""
    world.commits.flushed_later = True
    world.take_in(1)
    world.handed_over()
    world.commits.written()
    assert (world.safe(), world.done, world.commits.awaited) == ((1, 0), [], True)
    world.commits.flush_begins()
    assert not world.commits.awaited
    world.take_in(2)
    world.handed_over()
    world.commits.written()
    if fails:
        world.commits.not_flushed()
        assert (world.safe(), world.done, world.commits.awaited) == ((2, 0), [], True)
    else:
        world.commits.flushed()
        assert (world.safe(), world.done, world.commits.awaited) == ((2, 1), ["after 1"], True)
    world.commits.flush_begins()
    world.commits.flushed()
    assert (world.safe(), world.done, world.commits.awaited) == ((2, 2), ["after 1", "after 2"], False)


def test_what_waits_for_the_store_alone_does_not_wait_for_the_flush(world: World) -> None:
    world.commits.flushed_later = True
    world.take_in(1)
    world.commits.when_written(lambda: world.done.append("written"))
    world.commits.failed(world.handed_over(), "No space left on device")
    world.commits.make_safe()
    assert world.done == []
    world.handed_over()
    world.commits.when_written(lambda: world.done.append("written with the next"))
    world.commits.written()
    assert world.done == ["written"]
    world.commits.make_safe()
    assert world.done == ["written", "written with the next"], "there is nothing left to write"


def test_without_a_store_nothing_is_handed_over(world: World) -> None:
    world.state.journal = None
    world.take_in(1, writes=False)
    assert world.commits.hand_over() is None
    world.commits.make_safe()
    assert world.safe() == (1, 1)
