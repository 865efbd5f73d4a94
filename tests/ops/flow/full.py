"""Producers held by full queues, on an in-memory node."""

from __future__ import annotations

from tests.ops.commanded import Commanded
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import open_channel

STOP = 4
MARKS = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": 1}


def hold(commanded: Commanded, queue: str = "q", product: str = "a producer") -> Client:
    """Return a client that is held because it has filled a queue."""
    if commanded.node.router.topology.queue("/", queue) is None:
        commanded.node.declare(queue, durable=True, **MARKS)
    client = open_channel(commanded.node, properties={"product": product})
    for _ in range(2 * STOP):
        client.publish(1, b"x", routing_key=queue)
    commanded.node.settle(1)
    return client


def pass_time(commanded: Commanded, seconds: float) -> None:
    """Advance the node's clock."""
    commanded.node.now += seconds
    for _, acceptor in commanded.node.running_acceptors():
        acceptor.core.state.now = commanded.node.now
