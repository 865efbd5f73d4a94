"""Producers that will be held: `python -m tests.clients.hold LIBRARY JOB`, with the job as JSON.

Each publishes as fast as its library allows, then proves on the same channel that its connection is alive, and prints
that. Any error ends the process with exit code 1.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import amqp  # type: ignore[import-untyped]
import kombu  # type: ignore[import-untyped]
import pika

from tests.producers import STAMP

PATIENT = {socket.TCP_USER_TIMEOUT: 6000}
"""By default py-amqp has the kernel give up if a window stays closed for 1000 ms. The broker opens it every 400 ms, but
may not be scheduled for the remaining 600 ms. Tests of that limit keep the default.
"""

HOUR = 3600
"""Seconds that kombu may wait for an answer: over TLS, py-amqp's time-out for the handshake stays on the socket."""


@dataclass(frozen=True, slots=True)
class Job:
    """The job of producers: each of `connections` publishes `count` messages of `size` bytes to an exchange with the
    name of the queue as routing key, and each message to the queue `also` too, if given; with confirms, or in one
    transaction.

    `first` is the number of the first producer in the bodies, for `tests.producers.Ledger`. `hasty`: without `PATIENT`.
    """

    url: str
    queue: str
    count: int
    size: int
    exchange: str = ""
    also: str = ""
    confirms: bool = False
    tx: bool = False
    connections: int = 1
    first: int = 0
    hasty: bool = False

    @property
    def keys(self) -> list[str]:
        """The routing keys of each message."""
        return [self.queue, self.also] if self.also else [self.queue]

    @property
    def producers(self) -> range:
        """The numbers of the producers."""
        return range(self.first, self.first + self.connections)

    def bodies(self, producer: int) -> Iterator[bytes]:
        """Yield a producer's bodies."""
        padding = bytes(self.size - STAMP.size)
        return (STAMP.pack(producer, number) + padding for number in range(self.count))


def say(word: str) -> None:
    """Print a word in one write."""
    print(f"{word}\n", end="", flush=True)


def with_pika(job: Job, producer: int) -> None:
    """Do a producer's job with pika."""
    with pika.BlockingConnection(pika.URLParameters(f"{job.url}?heartbeat=5")) as connection:
        channel = connection.channel()
        if job.confirms:
            channel.confirm_delivery()
        if job.tx:
            channel.tx_select()
        say("publishing")
        for body in job.bodies(producer):
            for key in job.keys:
                channel.basic_publish(job.exchange, key, body)
        if job.tx:
            channel.tx_commit()
        channel.queue_declare("", exclusive=True)
        say("alive")


def with_py_amqp(job: Job, producer: int) -> None:
    """Do a producer's job with py-amqp."""
    url = urlsplit(job.url)
    settings = {} if job.hasty else PATIENT
    with amqp.Connection(
        url.netloc.rpartition("@")[2],
        ssl=url.scheme == "amqps",
        heartbeat=0,
        confirm_publish=job.confirms,
        socket_settings=settings,
    ) as connection:
        channel = connection.channel()
        if job.tx:
            channel.tx_select()
        say("publishing")
        for body in job.bodies(producer):
            for key in job.keys:
                channel.basic_publish(amqp.Message(body), exchange=job.exchange, routing_key=key)
        if job.tx:
            channel.tx_commit()
        channel.queue_declare("", exclusive=True)
        say("alive")


def with_kombu(job: Job, producer: int) -> None:
    """Do a producer's job with kombu, on py-amqp."""
    options = {"confirm_publish": job.confirms, "socket_settings": {} if job.hasty else PATIENT}
    with kombu.Connection(job.url, transport_options=options, connect_timeout=HOUR) as connection:
        publisher = connection.Producer()
        say("publishing")
        for body in job.bodies(producer):
            for key in job.keys:
                publisher.publish(body, key, content_type="data", content_encoding="binary", exchange=job.exchange)
        connection.default_channel.queue_declare("", exclusive=True)
        say("alive")


async def with_aio_pika(job: Job, producer: int) -> None:
    """Do a producer's job with aio-pika."""
    connection = await aio_pika.connect(f"{job.url}?heartbeat=5")
    failed: list[Any] = []
    connection.close_callbacks.add(lambda _, error: failed.append(error))
    async with connection:
        channel = await connection.channel(publisher_confirms=job.confirms)
        exchange = await channel.get_exchange(job.exchange, ensure=False) if job.exchange else channel.default_exchange
        transaction = channel.transaction() if job.tx else None
        if transaction is not None:
            await transaction.select()
        say("publishing")
        for body in job.bodies(producer):
            for key in job.keys:
                await exchange.publish(aio_pika.Message(body), routing_key=key)
        if transaction is not None:
            await transaction.commit()
        await channel.declare_queue(exclusive=True)
        assert not failed, failed
        say("alive")


def in_threads(work: Callable[[Job, int], None]) -> Callable[[Job], None]:
    """Return a function that runs each producer of a job in a thread."""

    def run(job: Job) -> None:
        with ThreadPoolExecutor(job.connections) as threads:
            list(threads.map(lambda producer: work(job, producer), job.producers))

    return run


def in_a_loop(job: Job) -> None:
    """Run all producers of a job in one event loop."""

    async def run() -> None:
        await asyncio.gather(*(with_aio_pika(job, producer) for producer in job.producers))

    asyncio.run(run())


LIBRARIES: dict[str, Callable[[Job], None]] = {
    "pika": in_threads(with_pika),
    "py-amqp": in_threads(with_py_amqp),
    "aio-pika": in_a_loop,
}

PROGRAMS = LIBRARIES | {"kombu": in_threads(with_kombu)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Job(**json.loads(sys.argv[2])))
