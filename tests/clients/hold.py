"""Producers that will be held: `python -m tests.clients.hold LIBRARY URL QUEUE COUNT SIZE`.

Each publishes as fast as its library lets it, then proves on the same channel that its connection is alive, and says
so. Any error ends it with exit code 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import amqp  # type: ignore[import-untyped]
import pika

from tests.producers import STAMP


def bodies(count: int, size: int) -> Iterator[bytes]:
    """Numbered as `tests.producers.Ledger` expects, of producer 0."""
    padding = bytes(size - STAMP.size)
    return (STAMP.pack(0, number) + padding for number in range(count))


def with_pika(url: str, queue: str, count: int, size: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=5")) as connection:
        channel = connection.channel()
        print("publishing", flush=True)
        for body in bodies(count, size):
            channel.basic_publish("", queue, body)
        channel.queue_declare("", exclusive=True)
        print("alive", flush=True)


def with_py_amqp(url: str, queue: str, count: int, size: int) -> None:
    with amqp.Connection(urlsplit(url).netloc.rpartition("@")[2], heartbeat=0) as connection:
        channel = connection.channel()
        print("publishing", flush=True)
        for body in bodies(count, size):
            channel.basic_publish(amqp.Message(body), routing_key=queue)
        channel.queue_declare("", exclusive=True)
        print("alive", flush=True)


def with_aio_pika(url: str, queue: str, count: int, size: int) -> None:
    async def publish() -> None:
        connection = await aio_pika.connect(f"{url}?heartbeat=5")
        failed: list[Any] = []
        connection.close_callbacks.add(lambda _, error: failed.append(error))
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            print("publishing", flush=True)
            for body in bodies(count, size):
                await channel.default_exchange.publish(aio_pika.Message(body), routing_key=queue)
            await channel.declare_queue(exclusive=True)
            assert not failed, failed
            print("alive", flush=True)

    asyncio.run(publish())


LIBRARIES: dict[str, Callable[[str, str, int, int], None]] = {
    "pika": with_pika,
    "py-amqp": with_py_amqp,
    "aio-pika": with_aio_pika,
}

if __name__ == "__main__":
    library, url, queue, count, size = sys.argv[1:]
    LIBRARIES[library](url, queue, int(count), int(size))
