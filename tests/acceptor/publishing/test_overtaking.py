"""Overtaking by destination: publishes for free queues pass parked ones, and the order within each queue stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

MARKS = {"x-flow-stop-count": 8, "x-flow-resume-count": 4}
QUEUES = ("a", "b", "free")


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        prepare(node)
        yield node


def prepare(node: Node) -> None:
    node.declare("a", shard=0, **MARKS)
    node.declare("b", shard=1, **MARKS)
    node.declare("free", shard=1, durable=True)
    for queue in QUEUES:
        node.bind("x", queue, type="direct", key=queue)
    node.bind("x", "a", "b", type="direct", key="both")


def opened(node: Node, **properties: str) -> Client:
    client = node.connect(properties=properties)
    client.call("channel.open", 1)
    return client


def publish(client: Client, key: str, *numbers: int) -> None:
    for number in numbers:
        client.publish(1, b"%d" % number, exchange="x", routing_key=key)
    client.node.settle()


def take(node: Node, reader: Client, queue: str, count: int) -> list[int]:
    reader.events[1].clear()
    for _ in range(count):
        reader.send("basic.get", 1, queue=queue, no_ack=True)
    node.settle(rechecks=1)
    return [int(event.body) for event in reader.events[1] if event.name == "basic.get-ok"]


@pytest.mark.parametrize("by", ["client", "policy", "nobody"])
def test_what_is_for_a_free_queue_passes(node: Node, by: str) -> None:
    if by == "policy":
        node.policy("p", "^guest$", {"overtaking": "destination"}, "users")
    client = opened(node, **({"overtaking": "destination"} if by == "client" else {}))
    publish(client, "a", *range(30))
    publish(client, "free", 0, 1)
    publish(client, "both", 100)
    publish(client, "b", 101)
    assert node.state("free").depth == (0 if by == "nobody" else 2)
    assert node.state("b").depth == 0, "a message for a and b waits for a, and the next one for b behind it"
    reader = opened(node)
    found: list[int] = []
    while node.state("a").depth:
        found += take(node, reader, "a", 8)
    assert found == [*range(30), 100]
    assert take(node, reader, "b", 5) == [100, 101]


def test_it_passes_no_method(node: Node) -> None:
    client = opened(node, overtaking="destination")
    publish(client, "a", *range(30))
    client.send("queue.declare", 1, queue="late")
    publish(client, "free", 1)
    assert node.state("free").depth == 0 and "queue.declare-ok" not in client.names(1)


def test_it_waits_at_no_gate_that_it_has_gone_through(node: Node) -> None:
    """A gate that opens with time may have room before it is polled."""
    node.declare("rated", **{"x-max-rate": 1})
    node.bind("x", "rated", type="direct", key="rated")
    client = opened(node, overtaking="destination")
    publish(client, "a", *range(30))
    publish(client, "rated", 1, 2)
    channel = client.connection.channels[1]
    assert len(channel.gates) == 2
    reader = opened(node)
    node.now += 2.0
    for _ in range(5):
        reader.send("basic.get", 1, queue="a", no_ack=True)
    node.settle(rechecks=0)
    assert node.state("rated").depth == 2
    assert [str(gate).split(":")[0] for gate in channel.gates] == ["queue 'a' in vhost '/'"]


def test_a_commit_that_was_parked_waits_where_it_has_no_room(node: Node) -> None:
    """The commit is behind another one: once that is done, the next has its turn, and has to wait for room as well."""
    client, reader = opened(node, overtaking="destination"), opened(node)
    publish(reader, "a", *range(9))
    client.call("tx.select", 1)
    for numbers in (range(10, 16), range(20, 26)):
        publish(client, "a", *numbers)
        client.send("tx.commit", 1)
    node.settle()
    found = [number for _ in range(10) for number in take(node, reader, "a", 8)]
    assert found == [*range(9), *range(10, 16), *range(20, 26)]
    assert client.names(1) == ["tx.commit-ok", "tx.commit-ok"]


def test_two_full_queues_and_their_confirms(node: Node) -> None:
    client = opened(node, overtaking="destination")
    client.call("confirm.select", 1)
    publish(client, "a", *range(20))
    publish(client, "b", *range(20))
    assert node.state("a").depth and node.state("b").depth
    reader = opened(node)
    found: list[int] = []
    while node.state("b").depth:
        found += take(node, reader, "b", 8)
    assert found == list(range(20)) and node.state("a").depth <= 10
    confirmed = [event.delivery_tag for event in client.events[1] if event.name == "basic.ack" and not event.multiple]
    assert set(range(21, 41)) <= set(confirmed)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.sampled_from(["a", "b", "both", "free"]), st.integers(1, 12)),
            st.tuples(st.just("take"), st.sampled_from(QUEUES), st.integers(1, 12)),
        ),
        max_size=40,
    ),
    confirms=st.booleans(),
)
def test_the_order_of_each_queue_stays(steps: list[tuple[str, str, int]], confirms: bool) -> None:
    with Node(shards=2) as node:
        prepare(node)
        client, reader = opened(node, overtaking="destination"), opened(node)
        if confirms:
            client.call("confirm.select", 1)
        sent: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        found: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        number = 0
        for step, key, count in steps:
            if step == "take":
                found[key] += take(node, reader, key, count)
                continue
            numbers = range(number, number + count)
            number += count
            publish(client, key, *numbers)
            for queue in ("a", "b") if key == "both" else (key,):
                sent[queue] += numbers
            assert node.state("free").depth == len(sent["free"]) - len(found["free"]), "it is never full"
        while any(node.state(queue).depth for queue in QUEUES):
            for queue in QUEUES:
                found[queue] += take(node, reader, queue, 8)
        assert found == sent
        channel = client.connection.channels[1]
        assert not channel.inbox and not channel.gates and channel.held_by is None
        assert channel.connection.kept.parked == 0
