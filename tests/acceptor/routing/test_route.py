"""A route: the gates that its publishes must pass, and the queues that their confirms wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.gates.pools import MultiplyingGate
from acceptor.routing.route import Route
from acceptor.routing.routes import names
from router.model.policy_keys import FLOW_SHARE
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

LIMIT = {"x-flow-stop-count": 10}
STOP = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return open_channel(node, properties=JAVA)


def route(client: Client, exchange: str, key: str = "") -> Route:
    """Return the route of a channel's publishes to this address."""
    client.node.settle()
    address = Route(exchange, key, (), (), ()).address()
    return client.node.core(0).routes.find(client.connection.channels[1], address)


@pytest.mark.parametrize(("exchange", "key"), [("", ""), ("x", "a.b"), ("ä", "\udcff"), ("e" * 255, "k" * 255)])
def test_the_address_is_two_short_strings(exchange: str, key: str) -> None:
    data = Route(exchange, key, (), (), ()).address()
    split = 1 + data[0]
    assert data[1:split] == exchange.encode("utf-8", "surrogateescape")
    assert data[split] == len(data) - split - 1
    if "\udcff" not in key:
        assert names(data) == (exchange, key)


def test_a_publish_passes_the_link_of_each_shard_and_the_gate_of_each_limited_queue(node: Node, client: Client) -> None:
    node.declare("a", 0, **LIMIT)
    node.declare("b", 0)
    node.declare("c", 1, **LIMIT)
    node.bind("x", "a", "b", "c")
    found = route(client, "x")
    core = node.core(0)
    queue_gates = {core.gates.queue_gates[node.queue(name).queue_id] for name in "ac"}
    assert set(found.gates) == {*core.links, *queue_gates} and len(found.gates) == 4
    assert set(found.queue_gates) == queue_gates
    assert [sorted(target.queues) for target in found.targets] == [
        sorted(node.queue(name).queue_id for name in names) for names in ("ab", "c")
    ]
    assert found.keepers == 2


def test_a_limit_that_counts_a_message_several_times_is_one_gate(node: Node, client: Client) -> None:
    for name in "ab":
        node.declare(name)
    node.bind("x", "a", "b")
    node.policy("p", "^x$", {"sum-stop-count": 10}, "exchanges")
    found = route(client, "x")
    (multiplying_gate,) = [gate for gate in found.gates if isinstance(gate, MultiplyingGate)]
    assert (multiplying_gate.times, found.queue_gates) == (2, (multiplying_gate.pool,))


def test_reply_consumers_keep_nothing_and_no_confirm_waits_for_them(node: Node, client: Client) -> None:
    client.send("basic.consume", 1, queue="amq.rabbitmq.reply-to", no_ack=True)
    node.declare("server")
    client.publish(1, b"q", routing_key="server", reply_to="amq.rabbitmq.reply-to")
    node.settle()
    client.send("basic.get", 1, queue="server", no_ack=True)
    node.settle()
    name = client.take("basic.get-ok", 1).properties["reply_to"]
    found = route(client, "", name)
    assert [(target.queues, target.keeps, target.queue_gates) for target in found.targets] == [((name,), False, ())]
    assert found.keepers == 0


def test_a_stop_of_one_connection_is_a_barrier_for_that_one(node: Node, client: Client) -> None:
    node.declare("q")
    ours, id = open_channel(node), client.connection.id
    node.command("flow_stop", **{**STOP, "connection": id}, author="ann", reason="", seconds=None)
    node.command("flow_stop", **{**STOP, "vhost": "/", "queue": "q"}, author="bob", reason="", seconds=None)
    found = route(client, "", "q")
    assert [str(gate) for gate in found.barriers_for(id)] == ["stopped by ann", "stopped by bob"]
    assert [str(gate) for gate in found.barriers_for(ours.connection.id)] == ["stopped by bob"]
    assert list(found.gates_for(id)) == [*found.barriers_for(id), *found.gates]


def test_queues_that_lag_behind_others_are_not_passed(node: Node, client: Client) -> None:
    for name in ("full", "free"):
        node.declare(name, **LIMIT)
    node.bind("x", "full", "free")
    node.policy("p", "^x$", {FLOW_SHARE: "75 %"}, "exchanges")
    for _ in range(30):
        client.publish(1, b"m", routing_key="full")
    node.settle(rechecks=1)
    found = route(client, "x")
    full, free = (node.core(0).gates.queue_gates[node.queue(name).queue_id] for name in ("full", "free"))
    assert full.is_saturated() and not free.is_saturated()
    assert full in found.gates
    passed = found.gates_for(client.connection.id)
    assert full not in passed and free in passed


def test_a_route_expires_if_one_of_its_queues_has_a_ttl(node: Node, client: Client) -> None:
    node.declare("plain")
    node.declare("brief", **{"x-message-ttl": 1000})
    node.bind("x", "plain", "brief")
    assert route(client, "x").expires and not route(client, "", "plain").expires
