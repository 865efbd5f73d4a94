"""Pressure near a limit of the node: which vhosts are stopped, in which order, and when they go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

VHOSTS = ("/", "v", "w")


@pytest.fixture
def node() -> Iterator[Node]:
    """Yield a node whose only shard has room for 1,000,000 bytes: it stops producers at 800,000 until 700,000."""
    with Node(memory_limit=1_000_000) as node:
        for vhost in VHOSTS[1:]:
            node.add_vhost(vhost)
        yield node


@pytest.fixture
def clients(node: Node) -> dict[str, Client]:
    """Return a client for each vhost, which has declared a queue `q` there."""
    clients = {vhost: node.connect(properties=JAVA, vhost=vhost) for vhost in VHOSTS}
    for client in clients.values():
        client.call("channel.open", 1)
        client.call("queue.declare", 1, queue="q")
    return clients


def publish(client: Client, nbytes: int, queue: str = "q") -> None:
    """Publish `nbytes`, including the weight of each message beside its body; let time pass."""
    for _ in range(nbytes // 10_000):
        client.publish(1, bytes(10_000 - 64), routing_key=queue)
    client.node.settle(rechecks=1)


def get(client: Client, nbytes: int) -> None:
    for _ in range(nbytes // 10_000):
        client.send("basic.get", 1, queue="q", no_ack=True)
    client.node.settle(rechecks=2)


def held(client: Client) -> str:
    gate = client.connection.channels[1].held_by
    return "" if gate is None else str(gate)


def depth(node: Node, vhost: str) -> int:
    queue = node.router.topology.queue(vhost, "q")
    assert queue
    return node.shard(0).state.queues[queue.queue_id].depth


def test_the_vhost_most_over_its_guarantee_is_stopped_first_and_everybody_last(
    node: Node, clients: dict[str, Client]
) -> None:
    publish(clients["/"], 300_000)
    publish(clients["v"], 400_000)
    publish(clients["w"], 20_000)
    for vhost in VHOSTS:
        publish(clients[vhost], 10_000)
    assert [held(clients[vhost]) for vhost in VHOSTS] == [
        "",
        "vhost 'v' holds 54 % of what the node does, 33 % are its guarantee, and the node's memory is nearly used up",
        "",
    ]
    assert [depth(node, vhost) for vhost in VHOSTS] == [31, 40, 3]
    publish(clients["w"], 40_000)
    publish(clients["/"], 10_000)
    assert held(clients["/"]).startswith("vhost '/' holds 40 % of what the node does")
    assert not held(clients["w"])
    publish(clients["w"], 100_000)
    publish(clients["w"], 10_000)
    assert held(clients["w"]) == "shard 0: its share of the node's memory is used up"
    get(clients["v"], 250_000)
    assert not any(held(client) for client in clients.values())
    assert not node.core(0).gates.pressure.gates


def test_below_the_resume_mark_nobody_is_stopped(node: Node, clients: dict[str, Client]) -> None:
    publish(clients["v"], 690_000)
    assert not node.core(0).gates.pressure.gates
    publish(clients["v"], 50_000)
    assert list(node.core(0).gates.pressure.gates) == ["v"]


def test_alone_it_is_not_over_its_guarantee() -> None:
    with Node(memory_limit=1_000_000) as node:
        client = node.connect(properties=JAVA)
        client.call("channel.open", 1)
        client.call("queue.declare", 1, queue="q")
        publish(client, 790_000)
        assert not held(client) and not node.core(0).gates.pressure.gates


def test_guarantees_of_policies(node: Node, clients: dict[str, Client]) -> None:
    node.policy("v", "^v$", {"guarantee": "80 %"}, "vhosts", vhost="")
    node.policy("w", "^w$", {"guarantee": "5 %"}, "vhosts", vhost="")
    publish(clients["v"], 500_000)
    publish(clients["w"], 180_000)
    publish(clients["/"], 50_000)
    assert list(node.core(0).gates.pressure.gates) == ["w"]
    assert node.core(0).gates.pressure.gates["w"].share.guarantee == 5
    publish(clients["w"], 10_000)
    assert held(clients["w"])
    node.policy("w", "^w$", {"guarantee": "25 %"}, "vhosts", vhost="")
    node.settle(rechecks=1)
    assert not held(clients["w"]) and depth(node, "w") == 19


def test_a_transaction_waits(node: Node, clients: dict[str, Client]) -> None:
    client = clients["v"]
    publish(client, 740_000)
    client.call("channel.open", 2)
    client.call("tx.select", 2)
    client.publish(2, b"x", routing_key="q")
    client.send("tx.commit", 2)
    node.settle(rechecks=1)
    assert depth(node, "v") == 74
    get(client, 100_000)
    assert client.take("tx.commit-ok", 2) and depth(node, "v") == 65
