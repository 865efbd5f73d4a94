"""Benchmark rows with clients in C (`pump.c`), which cost the machine little.

This module opens the connections and builds the bytes to write; the compiled program gets the descriptors. So the bytes
are the same as with clients in Python. Over TLS the program makes the connections, and passes on what this module says
to open AMQP on them.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from socket import socket, socketpair
from typing import Any

from load.compiled import compiled
from load.latency import PATIENCE_SECONDS, WARM_SECONDS, Pace
from load.processes import cpu_seconds
from load.target import Target
from load.throughput import Counted, Shape, Subscription, burst_of, measure, open_producer, prepared

END_SECONDS = 10.0
NO_STAMP = "-1"
NO_AUTHORITY = "-"
CONFIRMED = "confirmed"

Opener = Callable[[socket | None], socket]
"""Opens AMQP on a socket, or on a new one, as far as the first message; returns the socket."""


class Pump:
    """The running program, and the counts that it reports."""

    def __init__(self, arguments: list[str], connections: list[socket], data: bytes = b"") -> None:
        descriptors = [each.fileno() for each in connections]
        self._process = subprocess.Popen(
            [compiled("pump", "link.h"), *arguments, *map(str, descriptors)], bufsize=0, pass_fds=descriptors,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._descriptor = self._process.stdout.fileno()
        self._received = b""
        with suppress(BrokenPipeError), self._process.stdin as given:  # it may have failed by now
            given.write(data)
        self._process.stdin = None  # or `communicate` would write to it

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    def recv(self) -> Counted:
        """Return the next count. EOFError if the program has ended."""
        while b"\n" not in self._received:
            piece = os.read(self._descriptor, 4096)
            if not piece:
                raise EOFError("a client of the benchmark died")
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        nanoseconds, count = line.split()
        return int(nanoseconds) / 1e9, int(count)

    def poll(self, timeout: float) -> bool:
        """Whether a count, or the end, arrives within the time-out (seconds)."""
        return b"\n" in self._received or bool(select.select([self._descriptor], [], [], timeout)[0])

    def forget(self) -> None:
        """Make the program discard the latencies measured so far."""
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> str:
        """End the program and return its last line. ConnectionError with the reason if it failed."""
        self._process.terminate()
        out, problem = self._process.communicate(timeout=END_SECONDS)
        if self._process.returncode:
            raise ConnectionError(problem.decode().strip() or f"a client ended with {self._process.returncode}")
        return (self._received + out).decode().splitlines()[-1]

    def kill(self) -> None:
        """Kill the program, whatever its state."""
        self._process.kill()
        self._process.communicate()


def encode_burst(burst: bytes, messages: int) -> bytes:
    """Encode a burst of `messages` messages as a producer reads it."""
    return struct.pack("!II", len(burst), messages) + burst


def start(stack: ExitStack, target: Target, arguments: list[str], openers: Sequence[Opener], data: bytes = b"") -> Pump:
    """Run the program with a connection for each opener, until the stack ends. ConnectionError if one fails."""
    if target.tls:
        return start_with_tls(stack, target, arguments, openers, data)
    program = Pump(arguments, [stack.enter_context(opener(None)) for opener in openers], data)
    stack.callback(program.kill)
    return program


def start_with_tls(
    stack: ExitStack, target: Target, arguments: list[str], openers: Sequence[Opener], data: bytes
) -> Pump:
    """Run the program as `start` does, and open its connections through doors (see `pump.c`), one after the other."""
    doors = [tuple(map(stack.enter_context, socketpair())) for _ in openers]
    tls = ["tls", target.host, str(target.port), NO_AUTHORITY if target.authority is None else str(target.authority)]
    program = Pump([*tls, *arguments], [theirs for _, theirs in doors], data)
    stack.callback(program.kill)
    for _, theirs in doors:
        theirs.close()
    try:
        for opener, (ours, _) in zip(openers, doors, strict=True):
            opener(ours)
            ours.close()
    except OSError:
        program.end()
        raise
    return program


@contextmanager
def pumps(target: Target, shape: Shape, rate: float = 0.0) -> Iterator[tuple[Pump, Pump | None]]:
    """Run the producers, and the consumers if there are any. With a rate (messages a second, of all producers together)
    messages have stamps.
    """
    names, stamp = shape.names(), str(shape.size + 1) if rate else NO_STAMP
    with ExitStack() as stack:
        consumers = None
        if shape.consumers:
            queues = [names[number % len(names)] for number in range(shape.consumers)]
            (each,) = {shape.delivery_bytes(queue) for queue in queues}
            arguments = ["consume", str(each), str(shape.prefetch), stamp]
            consumers = start(stack, target, arguments, [partial(subscribe, target, shape, queue) for queue in queues])
        data = b"".join(encode_burst(burst_of(shape, number), shape.burst) for number in range(shape.producers))
        arguments = ["produce", CONFIRMED if shape.waits else str(rate), stamp]
        source = start(stack, target, arguments, [partial(open_producer, target, shape)] * shape.producers, data)
        yield source, consumers


def subscribe(target: Target, shape: Shape, queue: str, through: socket | None) -> socket:
    """Open the connection of a consumer, and return its socket."""
    return Subscription(target, shape, queue, through).socket


def throughput(target: Target, pid: int | None, seconds: float, shape: Shape) -> dict[str, Any]:
    """Measure as `load.throughput.throughput` does."""
    with prepared(target, shape), pumps(target, shape) as (source, consumers):
        return measure(consumers or source, pid, seconds)


def latency(
    target: Target, pid: int | None, seconds: float, pace: Pace, beside: AbstractContextManager[object] | None = None
) -> dict[str, Any]:
    """Measure as `load.latency.latency` does, and messages_per_second; `beside` is in force while it measures."""
    shape = pace.shape
    with prepared(target, shape), pumps(target, shape, pace.rate * shape.producers) as (source, consumers):
        assert consumers is not None
        count_for(consumers, WARM_SECONDS)
        with beside or nullcontext():
            consumers.forget()
            before = cpu_seconds(pid) if pid else 0.0
            first, last = count_for(consumers, seconds)
            sent = int(source.end().split()[1])
            drain(consumers, sent)
            spent = cpu_seconds(pid) - before if pid else 0.0
        _, count, p50, p99, most = consumers.end().split()
    result = {"messages": int(count), "p50_ms": int(p50) / 1e6, "p99_ms": int(p99) / 1e6, "max_ms": int(most) / 1e6}
    result["messages_per_second"] = (last[1] - first[1]) / (last[0] - first[0])
    if pid is not None:
        result["cpu_us_per_message"] = spent / max(int(count), 1) * 1e6
    return result


def count_for(pump: Pump, seconds: float) -> tuple[Counted, Counted]:
    """Read counts for `seconds`, and return the first and the last."""
    until = time.monotonic() + seconds
    first = last = pump.recv()
    while time.monotonic() < until:
        last = pump.recv()
    return first, last


def drain(pump: Pump, sent: int) -> None:
    """Wait until a consumer has received all messages. ConnectionError if some do not arrive."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (arrived := pump.recv()[1]) < sent:
        if time.monotonic() > until:
            raise ConnectionError(f"only {arrived} of {sent} messages arrived")
