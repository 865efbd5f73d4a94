"""Steps of the tests of transactions among joined cores."""

from __future__ import annotations

from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


def channel(node: Node, tx: bool = True) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    if tx:
        client.call("tx.select", 1)
    return client


def filled(node: Node) -> Client:
    """Return a client without transactions that has filled the queue."""
    client = channel(node, tx=False)
    for _ in range(5):
        client.publish(1, b"x", routing_key="full")
    node.settle(1)
    return client


def depths(node: Node, *queues: str) -> list[int]:
    return [node.state(queue).depth for queue in queues]


def get(node: Node, client: Client, queue: str) -> Event:
    node.settle()
    client.send("basic.get", 1, queue=queue)
    node.settle()
    return client.take("basic.get-ok", 1)
