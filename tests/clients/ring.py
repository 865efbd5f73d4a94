"""One of two clients in a ring: `python -m tests.clients.ring LIBRARY URL SOURCE TARGET COUNT FIRST`.

The client publishes to one queue as fast as its library allows, and consumes and acknowledges another on the same
channel, like a program with one connection. When it has published COUNT messages and received as many, and the FIRST
that were there before, it prints "done" and ends. Any error ends it with exit code 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import aio_pika
import amqp  # type: ignore[import-untyped]
import pika
from aio_pika.abc import AbstractIncomingMessage

from tests.clients.hold import PATIENT

BODY = bytes(1024)
PREFETCH = 5


def with_pika(url: str, source: str, target: str, count: int, first: int) -> None:
    """Publish and consume with pika."""
    with pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=5")) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        received: list[int] = []

        def on_message(
            channel: pika.adapters.blocking_connection.BlockingChannel,
            method: pika.spec.Basic.Deliver,
            _: object,
            __: bytes,
        ) -> None:
            channel.basic_ack(method.delivery_tag)
            received.append(method.delivery_tag)

        channel.basic_consume(source, on_message)
        for _ in range(count):
            channel.basic_publish("", target, BODY)
            connection.process_data_events(0)
        while len(received) < count + first:
            connection.process_data_events(1)


def with_py_amqp(url: str, source: str, target: str, count: int, first: int) -> None:
    """Publish and consume with py-amqp."""
    with amqp.Connection(urlsplit(url).netloc.rpartition("@")[2], heartbeat=0, socket_settings=PATIENT) as connection:
        channel = connection.channel()
        channel.basic_qos(0, PREFETCH, False)
        received: list[int] = []

        def on_message(message: amqp.Message) -> None:
            channel.basic_ack(message.delivery_tag)
            received.append(message.delivery_tag)

        channel.basic_consume(source, callback=on_message)
        for _ in range(count):
            channel.basic_publish(amqp.Message(BODY), routing_key=target)  # also processes deliveries
        while len(received) < count + first:
            connection.drain_events(timeout=60)


def with_aio_pika(url: str, source: str, target: str, count: int, first: int) -> None:
    """Publish and consume with aio-pika."""

    async def run() -> None:
        connection = await aio_pika.connect(f"{url}?heartbeat=5")
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=PREFETCH)
            received: list[int | None] = []
            done = asyncio.Event()

            async def on_message(message: AbstractIncomingMessage) -> None:
                await message.ack()
                received.append(message.delivery_tag)
                if len(received) == count + first:
                    done.set()

            await (await channel.get_queue(source, ensure=False)).consume(on_message)
            for _ in range(count):
                await channel.default_exchange.publish(aio_pika.Message(BODY), routing_key=target)
            await done.wait()

    asyncio.run(run())


LIBRARIES: dict[str, Callable[[str, str, str, int, int], None]] = {
    "pika": with_pika,
    "py-amqp": with_py_amqp,
    "aio-pika": with_aio_pika,
}

if __name__ == "__main__":
    library, url, source, target, count, first = sys.argv[1:]
    LIBRARIES[library](url, source, target, int(count), int(first))
    print("done", flush=True)
