"""Queues to be moved by plans, on both shards of a node."""

from __future__ import annotations

from tests.broker import Broker
from tests.raw import Client
from tests.waiting import wait_for

QUEUES = [f"planned.{number}" for number in range(12)]


def declare(node: Broker, messages: int) -> None:
    """Declare the queues, each with so many messages."""
    with Client.connect(node.address) as client:
        channel = client.channel()
        for name in QUEUES:
            channel.call("queue.declare", queue=name, durable=True)
            for _ in range(messages):
                channel.publish(b"x", name, delivery_mode=2)
        wait_for(lambda: [queue.ready for queue in node.queues()] == [messages] * len(QUEUES), what="all messages")
