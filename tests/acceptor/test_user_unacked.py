"""The limits on a user's unacked messages, over connections, acceptors and shards, whatever happens to these."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.settings.limits import LimitSettings
from shard.queue.hands import AT_ONCE
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

QUEUES = {"a": 0, "b": 1, "c": 0}


def make(acceptors: int = 2, shards: int = 2, stores: bool = False, **limits: int) -> Node:
    limited = {f"user_unacked_{what}": number for what, number in limits.items()}
    node = Node(acceptors, shards, stores=stores, limits=LimitSettings(**limited))
    node.add_user("other")
    for name, shard in QUEUES.items():
        node.declare(name, shard % shards, durable=stores)
    node.settle()
    return node


def consumer(node: Node, *queues: str, acceptor: int = 0, user: str = "guest", **options: Any) -> Client:
    client = node.connect(acceptor, user=user)
    client.call("channel.open", 1)
    for queue in queues:
        client.call("basic.consume", 1, queue=queue, **options)
    return client


def fill(node: Node, queue: str, count: int, size: int = 1) -> None:
    client = node.connect(user="other")
    client.call("channel.open", 1)
    for _ in range(count):
        client.publish(1, bytes(size), routing_key=queue, delivery_mode=2)
    node.settle()
    client.lose()
    node.settle()


def gather(*clients: Client) -> list[int]:
    """Return how many deliveries have come to each client."""
    counts = []
    for client in clients:
        counts.append(client.names(1).count("basic.deliver"))
        client.events[1].clear()
    return counts


def ack(client: Client, tag: int = 0) -> None:
    client.send("basic.ack", 1, delivery_tag=tag, multiple=True)
    client.node.settle()


def test_connections_of_a_user_share_what_it_may_have() -> None:
    with make(messages=20) as node:
        one, two, other = (consumer(node, "a", acceptor=index, user=user)
                           for index, user in ((0, "guest"), (1, "guest"), (0, "other")))  # fmt: skip
        fill(node, "a", 100)
        first, second, third = gather(one, two, other)
        assert (first + second, third) == (10, 10), "a shard of two has half of it, and each user its own"
        ack(other)
        assert gather(one, two, other) == [0, 0, 10]
        other.lose()
        node.settle()
        assert gather(one, two) == [0, 0]
        ack(one)
        assert sum(gather(one, two)) == first


def test_a_shard_has_its_part() -> None:
    with make(messages=20) as node:
        client = consumer(node, "a", "b")
        for queue in "ab":
            fill(node, queue, 30)
        assert gather(client) == [20]


def test_who_acks_lets_others_go_on() -> None:
    with make(shards=1, messages=10) as node:
        one, two = consumer(node, "a"), consumer(node, "c", acceptor=1)
        fill(node, "a", 10)
        fill(node, "c", 10)
        assert gather(one, two) == [10, 0]
        ack(one, 4)
        assert gather(one, two) == [0, 4]
        one.lose()
        node.settle()
        assert gather(two) == [6]


def test_bytes() -> None:
    with make(shards=1, bytes=10_000) as node:
        one, two = consumer(node, "a"), consumer(node, "c", acceptor=1)
        fill(node, "a", 6, 4000)
        fill(node, "c", 1, 50_000)
        assert gather(one, two) == [3, 0]
        ack(one, 1)
        assert gather(one, two) == [1, 0] or gather(two) == [1]
        ack(one)
        node.settle()
        assert two.connection.channels[1].unacked.total == 1


def test_without_acks_there_is_no_limit() -> None:
    with make(shards=1, messages=3, bytes=1000) as node:
        client = consumer(node, "a", no_ack=True)
        fill(node, "a", 50, 100)
        assert gather(client) == [50]


def test_none_at_all() -> None:
    with make(shards=1, messages=0) as node:
        client = consumer(node, "a")
        fill(node, "a", 5)
        assert gather(client) == [0]


def test_many_sleepers_are_all_served() -> None:
    with make(acceptors=1, shards=1, messages=2) as node:
        names = [f"q{number}" for number in range(3 * AT_ONCE)]
        for name in names:
            node.declare(name)
        client = consumer(node, *names)
        for name in names:
            fill(node, name, 1)
        fill(node, "a", 1)
        left = set(names)
        for _ in names:
            events = [event for event in client.events[1] if event.name == "basic.deliver"]
            client.events[1].clear()
            assert 1 <= len(events) <= 2 or not left
            left -= {event.routing_key for event in events}
            ack(client)
        assert not left


def test_what_goes_with_its_queue_is_not_in_hand() -> None:
    with make(shards=1, messages=5) as node:
        one, two = consumer(node, "a"), consumer(node, "c")
        fill(node, "a", 5)
        fill(node, "c", 5)
        assert gather(one, two) == [5, 0]
        one.call("queue.delete", 1, queue="a")
        node.settle()
        assert gather(two) == [5]


def test_a_cancelled_consumer_does_not_wait() -> None:
    with make(shards=1, messages=5) as node:
        one, two = consumer(node, "a"), consumer(node, "c", consumer_tag="t")
        fill(node, "a", 5)
        fill(node, "c", 5)
        two.call("basic.cancel", 1, consumer_tag="t")
        ack(one)
        assert gather(one, two) == [5, 0]
        assert not node.shard(0).consuming.hands.asleep


def test_the_log_says_once_that_consumers_wait() -> None:
    with make(shards=1, messages=5) as node:
        client = consumer(node, "a")
        for _ in range(3):
            fill(node, "a", 6)
            ack(client)
        (line,) = [line for line in node.logs if "is at its unacked limit" in line["event"]]
        assert (line["user"], line["messages"]) == ("guest", 5)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 5), max_size=25))
@pytest.mark.parametrize("limits", [{"messages": 6}, {"bytes": 4000}, {"messages": 9, "bytes": 5000}], ids=str)
def test_nobody_waits_while_there_is_room(limits: dict[str, int], random: Random, steps: list[int]) -> None:
    with make(stores=True, **limits) as node:
        clients = [consumer(node, *"abc"), consumer(node, *"ab", acceptor=1)]
        for step in steps:
            client = random.choice(clients)
            if step <= 1:
                fill(node, random.choice("abc"), random.randint(1, 6), random.choice([1, 900, 3000]))
            elif step == 2:
                ack(client)
            elif step == 3:
                client.send("basic.nack", 1, delivery_tag=0, multiple=True, requeue=True)
            elif step == 4:
                clients.remove(client)
                client.lose()
                clients.append(consumer(node, *"abc", acceptor=random.randint(0, 1)))
            else:
                node.kill_shard(0)
                node.settle()
                node.start_shard(0)
            node.settle()
            for index in range(2):
                check(node, index, **limits)


def check(node: Node, index: int, messages: int = 1 << 40, bytes: int = 1 << 40) -> None:
    """Check that a shard counts the user's unacked messages, and stops consumers only at its part of the limits."""
    core = node.shard(index)
    consumers = [each for link in core.state.links.values() for each in link.consumers.values()]
    hand = core.consuming.hands.of("guest")
    assert hand is not None
    assert hand.count == sum(each.outstanding.total for each in consumers)
    there = [core.state.queues[node.queue(name).queue_id].contents for name, shard in QUEUES.items() if shard == index]
    if bytes < 1 << 40:
        assert hand.nbytes == sum(contents.unacked_whole for contents in there)
    full = hand.count >= messages // 2 or hand.nbytes >= bytes // 2
    assert hand.is_full() == full
    assert full or not sum(contents.ready for contents in there)
    assert hand.count <= messages // 2 and hand.nbytes < bytes // 2 + 3200
