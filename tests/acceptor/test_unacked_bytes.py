"""The limit on a channel's unacked bytes, over several shards, whatever happens to these."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

LIMIT = 10_000
QUEUES = {"a": 0, "b": 1, "c": 0}


class Channel:
    """A channel that consumes, and a publisher to its queues."""

    def __init__(self, node: Node, durable: bool = False) -> None:
        self.node = node
        for name, shard in QUEUES.items():
            node.declare(name, shard, durable)
        self.client = node.connect()
        self.client.call("channel.open", 1)
        self.publisher = node.connect()
        self.publisher.call("channel.open", 1)
        self.published = 0

    def consume(self, *queues: str, **options: Any) -> None:
        for queue in queues:
            self.client.call("basic.consume", 1, queue=queue, **options)

    def fill(self, queue: str, sizes: list[int], **options: Any) -> None:
        for size in sizes:
            self.publisher.publish(1, bytes(size), routing_key=queue, **options)
        self.published += len(sizes)
        self.node.settle()

    def gather(self) -> int:
        """Return how many deliveries have come."""
        return len(taken(self.client))

    def settle(self, method: str = "basic.ack", **arguments: Any) -> None:
        arguments = arguments or {"delivery_tag": 0, "multiple": True}
        self.client.send(method, 1, **arguments)
        self.node.settle()

    @property
    def in_hand(self) -> int:
        return self.client.connection.channels[1].unacked.whole


def taken(client: Client) -> list[int]:
    """Return the body sizes of the deliveries that have come."""
    found = []
    while "basic.deliver" in client.names(1):
        found.append(len(client.take("basic.deliver", 1).body))
    return found


def node(shards: int = 2, **options: Any) -> Node:
    return Node(1, shards, amqp={"unacked_bytes": LIMIT}, **options)


def test_consumers_of_a_channel_share_what_it_may_have() -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.consume("a", "c")
        for queue in "ac":
            channel.fill(queue, [1000] * 20)
        assert channel.gather() == 10 and channel.in_hand > LIMIT - 1100
        channel.settle(delivery_tag=1)
        assert channel.gather() == 1
        for _ in range(10):
            channel.settle()
            assert channel.in_hand < LIMIT + 1100
        assert channel.gather() == 29


def test_a_message_of_any_size_passes() -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.consume("a")
        channel.fill("a", [10, 50_000, 50_000, 10])
        seen = []
        while found := taken(channel.client):
            seen.append(found)
            channel.settle()
        assert seen == [[10, 50_000], [50_000], [10]], "the next one passes as long as there is any room"


def test_without_acks_there_is_no_limit_nor_for_gets() -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.consume("a", no_ack=True)
        channel.fill("a", [1000] * 30)
        assert channel.gather() == 30
        channel.fill("b", [1000] * 30)
        for _ in range(30):
            channel.client.send("basic.get", 1, queue="b")
            joined.settle()
        assert channel.client.names(1).count("basic.get-ok") == 30
        channel.consume("c")
        channel.fill("c", [1000] * 30)
        assert channel.gather() in (9, 10), "what was got takes nothing of it"


def test_each_shard_keeps_an_equal_part() -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.consume("a")
        channel.fill("a", [1000] * 20)
        channel.fill("b", [1000] * 20)
        assert channel.gather() in (9, 10)
        channel.consume("b")
        assert channel.gather() in (4, 5), "what it has from the first is above its part now"
        channel.settle()
        assert channel.gather() == 10 and LIMIT <= channel.in_hand < LIMIT + 2 * 1100
        ready = [joined.state(name).contents.ready for name in "ab"]
        assert ready == [20 - 10 - 5, 20 - 5 - 5]


def test_with_a_limit_of_messages_that_is_kept_by_grants() -> None:
    """A shard whose part is used up is not hungry, as it could not use a grant."""
    with Node(1, 2, amqp={"unacked_bytes": 6000}) as joined:
        channel = Channel(joined)
        channel.client.call("basic.qos", 1, prefetch_count=10, global_=True)
        channel.consume("a", "b")
        channel.fill("a", [2500] * 6)
        assert channel.gather() in (1, 2)
        channel.fill("b", [10] * 30)
        count = channel.gather()
        assert count in (8, 9)
        shared = channel.client.connection.channels[1].shared_prefetch
        assert 0 not in shared.hungry and not any(shared.granted.values())
        while channel.in_hand:
            channel.settle()
        assert channel.gather() == 36 - 10


@pytest.mark.parametrize(("end", "more"), [("tx.commit", 9), ("tx.rollback", 0)])
def test_what_is_settled_in_a_transaction_counts_until_its_end(end: str, more: int) -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.client.call("tx.select", 1)
        channel.consume("a")
        channel.fill("a", [1000] * 40)
        first = channel.gather()
        assert first == 10
        channel.settle()
        assert channel.gather() == 0
        channel.client.call(end, 1)
        assert (channel.gather() >= 9) == bool(more)


def in_next_incarnation(joined: Node) -> None:
    joined.kill_shard(0)
    joined.settle()
    joined.start_shard(0)
    joined.settle()


def test_the_next_incarnation_of_a_shard_counts_what_is_in_hand() -> None:
    with node(stores=True) as joined:
        channel = Channel(joined, durable=True)
        channel.consume("a")
        channel.fill("a", [1000] * 20, delivery_mode=2)
        assert channel.gather() == 10
        in_next_incarnation(joined)
        assert channel.gather() == 0
        channel.settle(delivery_tag=1)
        assert channel.gather() == 1
        channel.settle("basic.nack", delivery_tag=0, multiple=True, requeue=True)
        assert channel.gather() == 10 and channel.in_hand <= LIMIT + 1100


def test_a_cancelled_consumer_has_what_it_has() -> None:
    with node() as joined:
        channel = Channel(joined)
        channel.consume("a", consumer_tag="one")
        channel.fill("a", [1000] * 20)
        channel.client.call("basic.cancel", 1, consumer_tag="one")
        channel.consume("c")
        channel.fill("c", [1000] * 5)
        assert channel.gather() == 10
        channel.settle()
        assert channel.gather() == 5


STEPS: list[Callable[[Channel, Random], None]] = [
    lambda channel, random: channel.fill(random.choice("abc"), random.choices([1, 900, 3000, 20_000], k=4)),
    lambda channel, random: channel.settle(random.choice(["basic.ack", "basic.nack"])),
    lambda channel, random: channel.settle("basic.nack", delivery_tag=0, multiple=True, requeue=random.random() < 0.5),
    lambda channel, random: settle_one(channel, random),
    lambda channel, random: in_next_incarnation(channel.node),
]


def settle_one(channel: Channel, random: Random) -> None:
    """Settle the last delivery."""
    tags = channel.client.connection.channels[1].unacked
    if tags.total:
        channel.settle(random.choice(["basic.ack", "basic.reject"]), delivery_tag=tags.next_tag - 1)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.lists(st.integers(0, len(STEPS) - 1), max_size=25))
def test_whatever_happens_it_is_kept_and_nobody_waits_for_nothing(random: Random, steps: list[int]) -> None:
    with node(stores=True) as joined:
        channel = Channel(joined, durable=True)
        channel.consume(*"abc")
        for step in steps:
            STEPS[step](channel, random)
            joined.settle()
            check(joined, channel)
        for _ in range(4 * channel.published + 4):
            channel.settle()
        assert all(joined.state(name).depth == 0 for name in QUEUES)
        check(joined, channel)
        assert channel.in_hand == 0


def check(joined: Node, channel: Channel) -> None:
    """Check that shards count unacked bytes, and stop only when these reach their part of the limit."""
    for index in range(2):
        (link,) = [link for link in joined.shard(index).state.links.values() if link.is_acceptor]
        group = link.groups[channel.client.connection.channels[1].group]
        assert group.bytes_limit == LIMIT // 2
        assert group.nbytes == sum(consumer.nbytes for consumer in link.consumers.values())
        there = [joined.state(name).contents for name, shard in QUEUES.items() if shard == index]
        assert group.nbytes == sum(contents.unacked_whole for contents in there)
        assert not sum(contents.ready for contents in there) or group.nbytes >= group.bytes_limit
        assert group.nbytes < group.bytes_limit + 21_000
