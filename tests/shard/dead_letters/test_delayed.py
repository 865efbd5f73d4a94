"""Delayed messages on their way from the delay queue of their exchange to the queues bound to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from router.model.delaying import delay_queue_of
from router.model.records import DELAYED_MESSAGE, DELAYED_TYPE
from shard.core import ShardCore
from tests.shard.steps import dlx, drain, get, pass_ms, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

WAITING = delay_queue_of("x")
SHARDS = 2


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=SHARDS) as node:
        yield node


def exchange(client: Client, name: str = "x", kind: str = "direct", **arguments: Any) -> None:
    arguments = {DELAYED_TYPE: kind, **{each.replace("_", "-"): value for each, value in arguments.items()}}
    client.call("exchange.declare", 1, exchange=name, type=DELAYED_MESSAGE, arguments=arguments)


def bind(client: Client, queue: str, key: str = "k", source: str = "x") -> None:
    client.call("queue.bind", 1, queue=queue, exchange=source, routing_key=key)


def bound(node: Node, queue: str = "q", **arguments: Any) -> Client:
    """Return a client of a node with a queue that is bound to a delayed exchange."""
    client = open_channel(node)
    exchange(client)
    node.declare(queue, **arguments)
    bind(client, queue)
    return client


def delayed(client: Client, body: bytes, delay: object, **properties: Any) -> None:
    headers = properties.pop("headers", {})
    publish(client, "k", body, exchange="x", headers={**headers, "x-delay": delay}, **properties)


def shards(node: Node) -> list[ShardCore]:
    return [node.shard(index) for index in range(SHARDS)]


def depth(node: Node, queue: str) -> int:
    return node.state(queue).depth


def test_each_message_comes_when_it_is_due(node: Node) -> None:
    client = bound(node)
    for body, delay in ((b"late", 300), (b"now", 0), (b"soon", 100), (b"also", 100)):
        delayed(client, body, delay)
    assert drain(client, "q") == [b"now"] and depth(node, WAITING) == 3
    pass_ms(node, 99)
    assert drain(client, "q") == []
    pass_ms(node, 1)
    assert drain(client, "q") == [b"soon", b"also"]
    recount(node, WAITING)
    pass_ms(node, 200)
    got = get(client, "q")
    assert got and (got.body, got.exchange, got.routing_key, got.redelivered) == (b"late", "x", "k", False)
    assert got.properties["headers"] == {"x-delay": -300}
    recount(node, WAITING)
    assert depth(node, WAITING) == 0


def test_bindings_count_when_it_is_due(node: Node) -> None:
    client = open_channel(node)
    exchange(client)
    delayed(client, b"1", 50)
    delayed(client, b"2", 150)
    pass_ms(node, 60)
    node.declare("q")
    bind(client, "q")
    pass_ms(node, 100)
    assert drain(client, "q") == [b"2"], "when the first was due, there was no binding"


def test_all_keys_count_and_hidden_ones_stay_hidden(node: Node) -> None:
    client = bound(node)
    for key in ("c", "hidden"):
        node.declare(key)
        bind(client, key, key)
    delayed(client, b"1", 50, headers={"CC": ["c"], "BCC": ["hidden"]})
    delayed(client, b"2", 0, headers={"CC": ["c"], "BCC": ["hidden"]})
    pass_ms(node, 60)
    for queue in ("q", "c", "hidden"):
        assert drain(client, queue) == [b"2", b"1"]
    delayed(client, b"3", 50, headers={"BCC": ["hidden"]})
    pass_ms(node, 60)
    got = get(client, "q")
    assert got and got.properties["headers"] == {"x-delay": -50}


def test_an_expiration_counts_from_the_queue_on(node: Node) -> None:
    client = bound(node)
    delayed(client, b"1", 500, expiration="100")
    pass_ms(node, 510)
    assert depth(node, "q") == 1
    pass_ms(node, 110)
    assert depth(node, "q") == 0


def test_a_message_is_delayed_once_whatever_exchanges_it_passes(node: Node) -> None:
    client = bound(node)
    exchange(client, "y")
    client.call("exchange.bind", 1, destination="y", source="x", routing_key="k")
    node.declare("far")
    bind(client, "far", source="y")
    delayed(client, b"1", 50)
    pass_ms(node, 60)
    assert drain(client, "q") == drain(client, "far") == [b"1"]


def test_an_exchange_before_it_does_not_matter(node: Node) -> None:
    client = bound(node)
    client.call("exchange.bind", 1, destination="x", source="amq.direct", routing_key="k")
    publish(client, "k", b"1", exchange="amq.direct", headers={"x-delay": 50})
    assert depth(node, WAITING) == 1
    pass_ms(node, 60)
    got = get(client, "q")
    assert got and got.exchange == "amq.direct"


def test_dead_letters_are_delayed_as_well(node: Node) -> None:
    client = bound(node)
    node.declare("dying", **dlx("x", "k", x_max_length=0))
    publish(client, "dying", b"1", headers={"x-delay": 50})
    assert depth(node, WAITING) == 1
    pass_ms(node, 60)
    assert drain(client, "q") == [b"1"]


def test_without_a_queue_it_goes_to_the_alternate_exchange(node: Node) -> None:
    client = open_channel(node)
    exchange(client, alternate_exchange="amq.fanout")
    node.declare("q")
    bind(client, "q", source="amq.fanout")
    delayed(client, b"1", 50)
    pass_ms(node, 60)
    assert drain(client, "q") == [b"1"]


def test_what_is_due_waits_for_room_and_holds_the_producers_of_the_exchange(node: Node) -> None:
    client = open_channel(node)
    exchange(client, x_flow_stop_count=20, x_flow_resume_count=10)
    node.declare("q", **{"qpid.flow_stop_count": 3})
    bind(client, "q")
    bodies = [b"%d" % number for number in range(40)]
    for body in bodies:
        delayed(client, body, 50)
    for _ in range(5):
        pass_ms(node, 60)
        assert depth(node, "q") == 4
    assert client.connection.channels[1].held_by is not None
    taker, taken = open_channel(node), []
    while len(taken) < len(bodies):
        taken += drain(taker, "q")
        pass_ms(node, 110)
        assert depth(node, "q") <= 4
    assert taken == bodies
    assert client.connection.channels[1].held_by is None and depth(node, WAITING) == 0
    assert all(shard.burial.weight == 0 and not shard.burial.room.under_way for shard in shards(node))


def test_many_that_are_due_at_once_leave_bit_by_bit(node: Node) -> None:
    """Beyond a megabyte they stay in their queue, where they may be on disk."""
    client = bound(node)
    for number in range(400):
        delayed(client, b"%10000d" % number, 50)
    node.now += 0.06
    burial = next(shard.burial for shard in shards(node) if node.state(WAITING).id in shard.state.queues)
    most = 0
    while node.step():
        most = max(most, burial.weight)
    node.settle()
    assert 0 < most < 3_000_000
    assert [int(body) for body in drain(client, "q")] == list(range(400))


def test_a_full_delay_queue_refuses_if_its_exchange_says_so(node: Node) -> None:
    client = open_channel(node)
    exchange(client, x_max_length=2, x_overflow="reject-publish")
    node.declare("q")
    bind(client, "q")
    client.call("confirm.select", 1)
    for number in range(3):
        delayed(client, b"%d" % number, 50)
    delayed(client, b"at once", 0)
    assert client.take("basic.nack", 1).delivery_tag == 3
    pass_ms(node, 60)
    assert drain(client, "q") == [b"at once", b"0", b"1"]


def test_purging_and_deleting(node: Node) -> None:
    client = bound(node)
    for number in range(3):
        delayed(client, b"%d" % number, 50)
    assert client.call("queue.purge", 1, queue=WAITING).messages == 3
    delayed(client, b"4", 50)
    client.call("exchange.delete", 1, exchange="x")
    pass_ms(node, 60)
    assert drain(client, "q") == []
    assert all(shard.state.weight == 0 for shard in shards(node))
