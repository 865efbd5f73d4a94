"""The intake: messages of a PUBLISH enter each of its queues, and those that a queue refuses are reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from penstock.batch.batch_cy import BatchBuilder
from penstock.bus.to_acceptor import Rejected
from penstock.bus.to_shard import Publish
from shard.turns.link import Link
from tests.ops.store.making import address, header
from tests.shard.queue.test_admission import outcomes
from tests.shard.steps import drain, get, pass_ms
from tests.shard.test_core import numbered
from tests.simulator.joined.node import Node, open_channel

ACCEPTOR, SHARD = b"acceptor.0.1", b"shard.1.1"
TURN, INDEX = 3, 5
REFUSING = {"x-max-length": 2, "x-overflow": "reject-publish"}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def enter(
    node: Node, link: Link, queues: Sequence[int | str], count: int, *more: int, firm: bool = False,
    powerless: Sequence[int] = (),
) -> None:  # fmt: skip
    """Let a PUBLISH of `count` messages, whose bodies are their rows, enter queues."""
    node.settle()
    builder = BatchBuilder()
    for body in numbered(count):
        builder.add(address("", "q"), header(body), body, 0)
    operation = Publish(queues, 0, 0, count, *more)
    node.shard(0).intake.publish(link, builder.finish().slices(0, count), TURN, INDEX, operation, firm, powerless)


def test_refused_rows_are_reported_for_each_queue(node: Node) -> None:
    small, large = node.declare("small", **REFUSING), node.declare("large")
    link = Link(ACCEPTOR)
    enter(node, link, [small.queue_id, 999, large.queue_id], 5)
    assert list(link.verdicts) == [Rejected(TURN, INDEX, small.queue_id, 2, 3)]
    client = open_channel(node)
    assert drain(client, "small") == [b"0", b"1"]
    assert drain(client, "large") == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("powerless", "entered"), [(False, 5), (True, 2)])
def test_a_firm_publish_enters_whole_but_for_powerless_queues(node: Node, powerless: bool, entered: int) -> None:
    id = node.declare("q", **REFUSING).queue_id
    link = Link(ACCEPTOR)
    enter(node, link, [id], 5, firm=True, powerless=[id] if powerless else [])
    assert node.state("q").depth == entered
    assert not link.verdicts


def test_another_shard_is_not_told_of_refusals(node: Node) -> None:
    """A dead letter that finds no room is lost."""
    id = node.declare("q", **REFUSING).queue_id
    link = Link(SHARD)
    enter(node, link, [id], 5)
    assert node.state("q").depth == 2
    assert not link.verdicts


@pytest.mark.parametrize("resent", [0, 1])
def test_resent_messages_are_redelivered(node: Node, resent: int) -> None:
    enter(node, Link(ACCEPTOR), [node.declare("q").queue_id], 1, resent)
    event = get(open_channel(node), "q")
    assert event is not None and event.redelivered == bool(resent)


def test_parked_time_counts_towards_expiry(node: Node) -> None:
    """A message that expired while parked is not even delivered to a waiting consumer."""
    id = node.declare("q", **{"x-message-ttl": 1000}).queue_id
    consumer = open_channel(node)
    consumer.call("basic.consume", 1, queue="q", no_ack=True, consumer_tag="c")
    enter(node, Link(ACCEPTOR), [id], 1, 0, 1500)
    node.settle()
    assert "basic.deliver" not in consumer.names(1) and node.state("q").contents.totals.dropped == 1
    consumer.call("basic.cancel", 1, consumer_tag="c")
    enter(node, Link(ACCEPTOR), [id], 1, 0, 900)
    node.settle()
    assert node.state("q").depth == 1
    pass_ms(node, 100)
    assert node.state("q").depth == 0


@pytest.mark.parametrize(
    ("identity", "firm", "overshoot"), [(ACCEPTOR, False, 3), (ACCEPTOR, True, 0), (SHARD, False, 0)]
)
def test_only_publishes_that_obey_marks_count_as_overshoot(
    node: Node, identity: bytes, firm: bool, overshoot: int
) -> None:
    id = node.declare("q", **{"x-flow-stop-count": 2, "x-flow-resume-count": 1}).queue_id
    enter(node, Link(identity), [id], 5, firm=firm)
    node.settle()
    assert node.state("q").saturation.saturated
    assert node.state("q").saturation.over_count == overshoot


def test_the_oldest_unacked_message(node: Node) -> None:
    id = node.declare("q").queue_id
    enter(node, Link(ACCEPTOR), [id], 3)
    intake, queue, client = node.shard(0).intake, node.state("q"), open_channel(node)
    first = queue.contents.first_ready()
    assert intake.oldest_unacked(queue) is None
    events = [get(client, "q", no_ack=False) for _ in range(2)]
    assert intake.oldest_unacked(queue) == first
    assert events[0] is not None
    client.send("basic.ack", 1, delivery_tag=events[0].delivery_tag)
    node.settle()
    assert intake.oldest_unacked(queue) == first + 1


def test_one_of_two_queues_refuses(node: Node) -> None:
    """Any refusal makes a nack; the other queue has the message all the same."""
    node.declare("small", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    node.declare("large")
    node.bind("x", "small", "large")
    client = open_channel(node)
    client.call("confirm.select", 1)
    for body in numbered(3):
        client.publish(1, body, exchange="x")
    node.settle()
    assert outcomes(client) == ({1}, {2, 3})
    assert (node.state("small").depth, node.state("large").depth) == (1, 3)
