"""Answers to reply consumers: they go to the acceptor named by the consumer, and nowhere once that is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import bus
from penstock.amqp.replies import new_name
from penstock.bus.to_acceptor import Answers
from penstock.bus.to_shard import Replies
from shard.turns.link import Link
from shard.turns.replies import has_reply_consumer, home, pass_on, reply_consumer
from shard.turns.state import ShardState
from tests.shard.store.test_store import batch
from tests.simulator.joined.node import Node


@pytest.fixture
def state() -> Iterator[ShardState]:
    """The state of a shard with the links of two acceptors."""
    with Node() as node:
        state = ShardState(0, node.gauges, 0)
        for identity in b"acceptor.0.1", b"acceptor.1.3":
            state.links[identity] = Link(identity)
        yield state


def test_the_home_is_one_incarnation_of_an_acceptor(state: ShardState) -> None:
    assert home(state, new_name(1, 3)) is state.links[b"acceptor.1.3"]
    assert home(state, new_name(1, 2)) is None
    assert home(state, "amq.rabbitmq.reply-to.1.3.guessed") is None


def test_answers_go_to_their_acceptor_only(state: ShardState) -> None:
    name, answers = new_name(1, 3), batch(b"0", b"1", b"2")
    pass_on(state, name, answers, 1, 2)
    pass_on(state, new_name(1, 2), answers, 0, 3)
    assert not state.links[b"acceptor.0.1"].turn.operations
    turn = state.links[b"acceptor.1.3"].turn
    (operation,) = turn.operations
    assert isinstance(operation, Answers) and (operation.name, operation.messages) == (name, 2)
    passed = bus.batch_at(turn.parts, operation.part)
    assert [passed.record(row)[2] for row in range(passed.count)] == [b"1", b"2"]


def test_a_reply_consumer_is_there_until_it_or_its_acceptor_goes(state: ShardState) -> None:
    name = new_name(1, 3)
    link = state.links[b"acceptor.1.3"]
    assert not has_reply_consumer(state, name)
    for _ in range(2):
        reply_consumer(link, Replies(name, True))
    assert has_reply_consumer(state, name) and not has_reply_consumer(state, new_name(1, 3))
    for _ in range(2):
        reply_consumer(link, Replies(name, False))
    assert not has_reply_consumer(state, name)
    reply_consumer(link, Replies(name, True))
    del state.links[b"acceptor.1.3"]
    assert not has_reply_consumer(state, name)
