"""The work of a shard in the gauges: the operation at which an incarnation ended, or that it was doing nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import FINISHES, Gauges
from shard.turns.doing import NOTED, Doing
from shard.turns.link import Link
from shard.turns.state import ShardState

ACCEPTOR, SHARD = Link(b"acceptor.1.4"), Link(b"shard.0.2")
INDEX, TURN, INCARNATION = 1, 9, 2


@pytest.fixture
def doing(tmp_path: Path) -> Iterator[Doing]:
    """The work of a shard's second incarnation."""
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=2, shards=2, queues=1, pid=os.getpid()) as gauges:
        state = ShardState(INDEX, gauges, 1000)
        state.incarnation = INCARNATION
        doing = Doing(state)
        doing.begins(INCARNATION)
        yield doing


def recorded(doing: Doing, incarnation: int = 4, turn: int = TURN) -> int:
    """Return the ordinal recorded for a turn of an incarnation of the acceptor."""
    return doing.gauges.pair_read_doing(1, INDEX, incarnation, turn)


def test_an_operation_is_recorded_by_its_place_in_a_turn_of_one_incarnation(doing: Doing) -> None:
    for index in 0, 6:
        doing.takes_in(ACCEPTOR, TURN, index)
        assert recorded(doing) == index + 1
    assert recorded(doing, turn=TURN - 1) == recorded(doing, incarnation=3) == 0


def test_the_end_of_a_turn_is_recorded_with_its_queue(doing: Doing) -> None:
    doing.takes_in(ACCEPTOR, TURN, 0)
    doing.has_taken_in(ACCEPTOR, TURN)
    doing.finishes(77)
    assert recorded(doing) == FINISHES + INCARNATION % 2
    assert doing.gauges.finishing_read(INDEX, INCARNATION) == 77
    doing.finishes(0)
    doing.has_finished()
    assert (recorded(doing), doing.gauges.finishing_read(INDEX, INCARNATION), doing.received) == (0, 0, {})


def test_turns_of_other_shards_are_not_recorded(doing: Doing) -> None:
    """No acceptor would resend them."""
    doing.takes_in(SHARD, TURN, 0)
    doing.has_taken_in(SHARD, TURN)
    assert not doing.received
    assert all(doing.gauges.pair_read_doing(acceptor, INDEX, 2, TURN) == 0 for acceptor in (0, 1))


def test_a_later_incarnation_records_for_a_while_after_its_first_turn(doing: Doing) -> None:
    assert doing.recording
    doing.state.now += 10 * NOTED
    doing.has_finished()
    assert doing.recording, "this was the first"
    doing.state.now += NOTED - 1
    doing.has_finished()
    assert doing.recording
    doing.state.now += 1
    doing.has_finished()
    assert not doing.recording


def test_a_first_incarnation_records_nothing(doing: Doing) -> None:
    """No earlier incarnation was killed by a turn."""
    doing.begins(1)
    assert not doing.recording
