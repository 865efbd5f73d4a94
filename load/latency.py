"""Benchmark rows of latency: the time from before a message is written until a consumer has it, at a moderate rate.

Producers and consumers share one process and so one clock; the cost of that process is in the figures of every broker.
"""

from __future__ import annotations

import select
import statistics
import struct
import time
from socket import socket
from typing import Any, NamedTuple

from load import frames
from load.processes import cpu_seconds
from load.target import Target
from load.throughput import Shape, Subscription, check_plain, prepared
from load.wire import Wire

STAMP = struct.Struct("!q")
WARM_SECONDS = 0.5
PATIENCE_SECONDS = 20.0


class Pace(NamedTuple):
    """A load shape at a rate, in messages a second of each producer."""

    shape: Shape
    rate: float


class _Reader(Subscription):
    """Reads the stamp of each message and acks the message; `took` has the nanoseconds since the stamps."""

    def __init__(self, target: Target, shape: Shape, queue: str) -> None:
        super().__init__(target, shape, queue)
        self.count = 0
        self.took: list[int] = []

    def fileno(self) -> int:
        """Of the socket, for `select`."""
        return self.socket.fileno()

    def receive(self) -> None:
        """Receive deliveries."""
        self.received += self.socket.recv(1 << 16)
        now = time.monotonic_ns()
        whole = len(self.received) // self.bytes_each
        for number in range(whole):
            (stamp,) = STAMP.unpack_from(self.received, (number + 1) * self.bytes_each - 1 - self.shape.size)
            self.took.append(now - stamp)
        self.received = self.received[whole * self.bytes_each :]
        self.count += whole
        if whole and self.shape.prefetch:
            self.socket.sendall(frames.ack_up_to(self.count))


def latency(target: Target, pid: int | None, seconds: float, pace: Pace) -> dict[str, Any]:
    """Publish at a rate for `seconds`. Returns messages, p50_ms, p99_ms, max_ms and, if `pid` is the broker's, its
    cpu_us_per_message. ConnectionError if messages do not arrive.
    """
    check_plain(target)
    shape = pace.shape
    with prepared(target, shape):
        names = shape.names()
        readers = [_Reader(target, shape, names[number % len(names)]) for number in range(shape.consumers)]
        producers = [(Wire(target).socket, names[number % len(names)]) for number in range(shape.producers)]
        spent = 0.0
        for length in (WARM_SECONDS, seconds):
            for reader in readers:
                reader.took.clear()
            before = cpu_seconds(pid) if pid else 0.0
            sent = _publish(readers, producers, pace, length)
            _drain(readers, sent)
            spent = cpu_seconds(pid) - before if pid else 0.0
        took = [nanoseconds for reader in readers for nanoseconds in reader.took]
        for end in (*(reader.socket for reader in readers), *(producer for producer, _ in producers)):
            end.close()
    return _summary(took, spent if pid else None)


def _publish(readers: list[_Reader], producers: list[tuple[socket, str]], pace: Pace, seconds: float) -> int:
    """Publish each message when it is due, from each producer in turn; return how many were sent."""
    shape, interval = pace.shape, 1 / (pace.rate * len(producers))
    began = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < began + seconds:
        while sent * interval <= now - began:
            producer, queue = producers[sent % len(producers)]
            body = STAMP.pack(time.monotonic_ns()) + bytes(shape.size - STAMP.size)
            producer.sendall(frames.publish(shape.key(queue), body, 1, shape.exchange, shape.persistent))
            sent += 1
        _receive(readers, max(began + sent * interval - time.monotonic(), 0))
    return sent


def _receive(readers: list[_Reader], seconds: float) -> None:
    """Receive what arrives within this time, and at least all that has arrived. select(2), for its sub-millisecond
    time-outs.
    """
    for reader in select.select(readers, [], [], seconds)[0]:
        reader.receive()


def _drain(readers: list[_Reader], sent: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while sum(len(reader.took) for reader in readers) < sent:
        if time.monotonic() > until:
            raise ConnectionError(f"not all of {sent} messages arrived")
        _receive(readers, 0.05)


def _summary(took: list[int], spent: float | None) -> dict[str, Any]:
    percentiles = statistics.quantiles(took, n=100)
    result = {
        "messages": len(took),
        "p50_ms": percentiles[49] / 1e6,
        "p99_ms": percentiles[98] / 1e6,
        "max_ms": max(took) / 1e6,
    }
    if spent is not None:
        result["cpu_us_per_message"] = spent / len(took) * 1e6
    return result
