"""Benchmark rows of throughput: messages a second through queues, from bare sockets to bare sockets.

One process writes all publishes and another reads all deliveries, as plain bytes: messages are of equal length, so they
are counted without being parsed. Thus the broker is the limit, not the client, except for 100 producers that write
message by message.
"""

from __future__ import annotations

import multiprocessing
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from socket import socket
from typing import Any, Protocol

from load import frames
from load.processes import cpu_seconds
from load.session import Session
from load.target import Target
from load.wire import Wire

EXCHANGE = "bench"
WARM_SECONDS = 0.4
"""Messages received in this time are not counted."""
REPORT_SECONDS = 0.05
STALLED_SECONDS = 30.0
"""Extra time for a run in which nothing has arrived: the machine may be busy otherwise."""
WAIT_MS = 100
BUFFER = bytearray(1 << 20)


@dataclass(frozen=True, slots=True)
class Shape:
    """A load: `burst` messages a write, `size` bytes a body (at least one). Consumers with a `prefetch` ack half of it
    at a time. Producers and consumers are spread over the queues in turn; in a fan-out each message goes to all queues.
    A producer that `waits` writes a message, with confirms and a burst of one, once the last one is confirmed.
    """

    size: int
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    burst: int = 64
    prefetch: int = 0
    confirm: bool = False
    waits: bool = False
    persistent: bool = False
    fanout: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of queue.declare."""

    @property
    def exchange(self) -> str:
        """The exchange that producers publish to."""
        return EXCHANGE if self.fanout else ""

    def names(self) -> list[str]:
        """Return the names of the queues."""
        return [f"bench-{number}" for number in range(self.queues)]

    def key(self, queue: str) -> str:
        """Return the routing key of a queue's messages."""
        return "" if self.fanout else queue

    def delivery_bytes(self, queue: str) -> int:
        """Return the length of a delivery from a queue."""
        return frames.delivery_bytes(self.size, self.exchange, self.key(queue), self.persistent)


Counted = tuple[float, int]
"""A time (seconds of the monotonic clock), and the number of messages by then."""


def throughput(target: Target, pid: int | None, seconds: float, shape: Shape) -> dict[str, Any]:
    """Run a load for `seconds`. Returns messages_per_second (delivered, or published if there are no consumers) and, if
    `pid` is the broker's, its cpu_us_per_message. ConnectionError if a client died or no message arrived.
    """
    check_plain(target)
    with prepared(target, shape):
        ending = multiprocessing.Event()
        near, far = multiprocessing.Pipe(duplex=False)
        roles = [_produce, _consume] if shape.consumers else [_produce]
        processes = [
            multiprocessing.Process(
                target=role, args=(target, shape, ending, far if role is roles[-1] else None), daemon=True
            )
            for role in roles
        ]
        for process in processes:
            process.start()
        far.close()
        try:
            return measure(near, pid, seconds)
        finally:
            ending.set()
            for process in processes:
                process.terminate()
                process.join()


def check_plain(target: Target) -> None:
    """Raise ValueError if the broker is reached over TLS, which costs a client in Python more than the broker."""
    if target.tls:
        raise ValueError("this row over TLS needs clients in C: --client c")


class Counts(Protocol):
    """A source of counts. `recv` raises EOFError at the end."""

    def recv(self) -> Counted: ...

    def poll(self, timeout: float) -> bool: ...


def measure(counts: Counts, pid: int | None, seconds: float) -> dict[str, Any]:
    """Count messages for `seconds` after warming up. ConnectionError if none arrive or the counts end."""
    try:
        _last(counts, WARM_SECONDS)
        before = cpu_seconds(pid) if pid else 0.0
        first, last = _last(counts, REPORT_SECONDS), _last(counts, seconds)
        until = time.monotonic() + STALLED_SECONDS
        while last[1] == first[1] and time.monotonic() < until:
            last = counts.recv()
        spent = cpu_seconds(pid) - before if pid else None
    except EOFError:
        raise ConnectionError("a client of the benchmark died") from None
    messages = last[1] - first[1]
    if not messages:
        raise ConnectionError(f"no message in {STALLED_SECONDS:g} s")
    result = {"messages": messages, "messages_per_second": messages / (last[0] - first[0])}
    if spent is not None:
        result["cpu_us_per_message"] = spent / messages * 1e6
    return result


def _last(counts: Counts, seconds: float) -> Counted:
    """Return the last count received within `seconds`; wait for the first one if necessary."""
    until = time.monotonic() + seconds
    found: Counted = counts.recv()
    while (left := until - time.monotonic()) > 0:
        if counts.poll(left):
            found = counts.recv()
    return found


@contextmanager
def prepared(target: Target, shape: Shape) -> Iterator[None]:
    """Declare empty queues, and delete them at the end."""
    session = Session(target, "bench setup")
    channel = session.channel
    for queue in shape.names():
        channel.queue_delete(queue)
        channel.queue_declare(queue, durable=shape.persistent, arguments=dict(shape.arguments))
    if shape.fanout:
        channel.exchange_declare(EXCHANGE, "fanout")
        for queue in shape.names():
            channel.queue_bind(queue, EXCHANGE)
    session.close()
    try:
        yield
    finally:
        session = Session(target, "bench cleanup")
        for queue in shape.names():
            session.channel.queue_delete(queue)
        if shape.fanout:
            session.channel.exchange_delete(EXCHANGE)
        session.close()


def _produce(target: Target, shape: Shape, ending: Event, counts: Connection | None) -> None:
    """Run the producers' process: publish as fast as the sockets accept it; send counts if `counts` is given."""
    poll, wires, rest = select.epoll(), {}, {}
    bursts = {}
    for number in range(shape.producers):
        connection = open_producer(target, shape)
        connection.setblocking(False)
        fd = connection.fileno()
        wires[fd], bursts[fd] = connection, memoryview(burst_of(shape, number))
        rest[fd] = bursts[fd]
        poll.register(fd, select.EPOLLOUT | (select.EPOLLIN if shape.confirm else 0))
    sent = 0
    said = time.monotonic()
    while not ending.is_set():
        for fd, event in poll.poll(WAIT_MS / 1000):
            if event & select.EPOLLIN:
                wires[fd].recv_into(BUFFER)
                if shape.waits:
                    poll.modify(fd, select.EPOLLOUT | select.EPOLLIN)
            if event & select.EPOLLOUT:
                rest[fd] = rest[fd][wires[fd].send(rest[fd]) :]
                if not rest[fd]:
                    rest[fd] = bursts[fd]
                    sent += shape.burst
                    if shape.waits:
                        poll.modify(fd, select.EPOLLIN)
        if counts is not None and (now := time.monotonic()) > said + REPORT_SECONDS:
            counts.send((now, sent))
            said = now


def open_producer(target: Target, shape: Shape, through: socket | None = None) -> socket:
    """Open the connection of a producer (through a socket, see `Wire`), and return its socket."""
    wire = Wire(target, through=through)
    if shape.confirm:
        wire.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
    return wire.socket


def burst_of(shape: Shape, number: int) -> bytes:
    """Return the burst of the producer of this number."""
    names = shape.names()
    key = shape.key(names[number % len(names)])
    return frames.publish(key, bytes(shape.size), shape.burst, shape.exchange, shape.persistent)


class Subscription:
    """A consumer of a queue. Deliveries arrive on its socket, each `bytes_each` bytes long, after those in
    `received`. It may go through another socket, see `Wire`.
    """

    def __init__(self, target: Target, shape: Shape, queue: str, through: socket | None = None) -> None:
        self.shape = shape
        self.bytes_each = shape.delivery_bytes(queue)
        wire = Wire(target, through=through)
        if shape.prefetch:
            wire.call(frames.BASIC_QOS, frames.qos(shape.prefetch), frames.BASIC_QOS_OK)
        wire.call(frames.BASIC_CONSUME, frames.consume(queue, acks=bool(shape.prefetch)), frames.BASIC_CONSUME_OK)
        self.socket = wire.socket
        self.received = wire.received


class _CountedSubscription(Subscription):
    """Counts deliveries by their total length, and acks them."""

    def __init__(self, target: Target, shape: Shape, queue: str) -> None:
        super().__init__(target, shape, queue)
        self.nbytes = len(self.received)
        self.acked = 0

    @property
    def count(self) -> int:
        """Whole deliveries received."""
        return self.nbytes // self.bytes_each

    def receive(self) -> None:
        """Read from the socket, and ack if half the prefetch is unacked."""
        self.nbytes += self.socket.recv_into(BUFFER)
        if self.shape.prefetch and self.count - self.acked >= self.shape.prefetch // 2:
            self.acked = self.count
            self.socket.sendall(frames.ack_up_to(self.acked))


def _consume(target: Target, shape: Shape, ending: Event, counts: Connection) -> None:
    """Run the consumers' process: read deliveries, and send counts at intervals."""
    names, poll = shape.names(), select.epoll()
    subscriptions = {}
    for number in range(shape.consumers):
        subscription = _CountedSubscription(target, shape, names[number % len(names)])
        subscriptions[subscription.socket.fileno()] = subscription
        poll.register(subscription.socket.fileno(), select.EPOLLIN)
    said = time.monotonic()
    while not ending.is_set():
        for fd, _ in poll.poll(WAIT_MS / 1000):
            subscriptions[fd].receive()
        if (now := time.monotonic()) > said + REPORT_SECONDS:
            counts.send((now, sum(subscription.count for subscription in subscriptions.values())))
            said = now
