"""The turn being written to a shard: publishes that join others, reserved places, and when the turn may wait."""

from __future__ import annotations

import pytest

from acceptor.links.outgoing import SETTLING_SECONDS, OutgoingTurn
from acceptor.links.sent import Commit
from acceptor.links.weights import WHOLE
from penstock.batch.batch_cy import BatchBuilder
from penstock.bus import to_shard
from tests.acceptor.links.test_sent import Transaction, batch_of


def grown(turn: OutgoingTurn, *queues: int) -> object:
    """Return a publish of the turn that can grow."""
    publish = turn.open_publish(queues, WHOLE)
    publish.builder = BatchBuilder()
    publish.builder.extend(batch_of(1), 0, 1)
    publish.count = 1
    return publish


def test_a_publish_is_joined_unless_that_would_overtake_another_one() -> None:
    turn = OutgoingTurn(0)
    first = grown(turn, 1)
    assert turn.joined((1,)) is first and turn.joined((2,)) is None
    both = grown(turn, 1, 2)
    assert turn.joined((1,)) is None and turn.joined((1, 2)) is both
    grown(turn, 2)
    assert turn.joined((1, 2)) is None, "what is published to the second queue since would be overtaken"


def test_nothing_joins_the_publishes_of_a_transaction() -> None:
    turn = OutgoingTurn(0)
    commit = Commit(Transaction(), None)
    commit.add((1,), batch_of(2), 0, 2)
    turn.commit(commit)
    assert turn.joined((1,)) is None
    sent, _ = turn.leave(1, 1, 0)
    assert [type(operation) for operation in sent.operations] == [to_shard.Commit, to_shard.Publish]
    assert [*sent.commits] == [0] and [*sent.publishes] == [1]


def test_places_are_filled_as_it_leaves() -> None:
    turn = OutgoingTurn(0)
    grown(turn, 1)
    turn.settling(0.0)
    turn.open_window(7, 100)
    turn.open_window(7, 50)
    sent, frames = turn.leave(9, 1, 0)
    publish, settle, window = sent.operations
    assert isinstance(publish, to_shard.Publish) and (publish.queues, publish.messages) == ((1,), 1)
    assert isinstance(settle, to_shard.Settle) and settle.part == 2
    assert window == to_shard.Window({7: 150})
    assert sent.number == 9 and sent.nbytes == sum(map(len, frames))


@pytest.mark.parametrize("hurries", [False, True])
def test_settlements_alone_wait_a_moment_unless_somebody_waits_for_them(hurries: bool) -> None:
    turn = OutgoingTurn(0)
    turn.settling(5.0)
    turn.hurries = hurries
    assert turn.waits(5.0, 0.0, unreported=False) is not hurries
    assert not turn.waits(5.0 + SETTLING_SECONDS, 0.0, unreported=False)
