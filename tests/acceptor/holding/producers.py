"""Producers that are held or paused at a full queue."""

from __future__ import annotations

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

PARKING = 1024
PIKA = "Pika Python Client Library"
MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}


def paused(node: Node, parked: int, product: str, heartbeat: int = 0) -> Client:
    """Return a client whose socket is paused with about `parked` bytes parked."""
    node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
    client = node.connect(properties={"product": product}, heartbeat=heartbeat)
    client.call("channel.open", 1)
    for _ in range(2):
        client.publish(1, b"", routing_key="full")
    node.settle(1)
    client.publish(1, bytes(parked), routing_key="full")
    node.settle(1)
    assert not client.socket.reads
    return client


def held(node: Node, throttle: str, properties: dict[str, str], *, confirms: bool = False) -> Client:
    """Return a client that is held by a queue with these means (`throttle`); none of its publishes are parked."""
    node.declare("full", **MARKS, **{"x-throttle": throttle})
    client = node.connect(properties=properties)
    client.call("channel.open", 1)
    if confirms:
        client.call("confirm.select", 1)
    for _ in range(3):
        client.publish(1, b"", routing_key="full")
        node.settle()
    return client
