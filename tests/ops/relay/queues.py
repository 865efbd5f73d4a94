"""Queues of a running node, filled and read by pika."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pika

from tests.broker import Broker


def url_of(broker: Broker, vhost: str = "%2F") -> str:
    return f"amqp://guest:guest@{broker.address.host}:{broker.address.port}/{vhost}"


@contextmanager
def channel_to(broker: Broker) -> Iterator[Any]:
    """A channel in confirm mode."""
    connection = pika.BlockingConnection(pika.URLParameters(url_of(broker)))
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        yield channel
    finally:
        if connection.is_open:
            connection.close()


def declare(channel: Any, *queues: str, **arguments: Mapping[str, Any]) -> None:
    """Declare durable queues; `arguments` are those of each, by name."""
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments=dict(arguments.get(queue, {})))


def fill(channel: Any, queue: str, numbers: range) -> None:
    """Publish persistent messages with the numbers as bodies."""
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))


def drained(channel: Any, queue: str, most: int | None = None) -> list[Any]:
    """Take all ready messages, or at most so many, each as (method, properties, body). A queue that is fed meanwhile
    may never be empty.
    """
    found: list[Any] = []
    while len(found) != most and (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got)
    return found


def numbers(channel: Any, queue: str) -> list[int]:
    """Take all ready messages of a queue, and return the numbers in their bodies."""
    return [int(body) for _, _, body in drained(channel, queue)]


def ready(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)
