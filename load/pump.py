"""Benchmark rows with clients in C (`pump.c`), which cost the machine little.

This module opens the connections and builds the bytes to write; the compiled program gets the descriptors. So the bytes
are the same as with clients in Python.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket
from typing import Any

from load.latency import PATIENCE_SECONDS, WARM_SECONDS, Pace
from load.processes import cpu_seconds
from load.target import Target
from load.throughput import Counted, Shape, Subscription, measure, prepared, producers

SOURCE = Path(__file__).with_suffix(".c")
PROGRAM = SOURCE.parents[1] / "build" / "pump"
END_SECONDS = 10.0
NO_STAMP = "-1"


def build() -> Path:
    """Return the program, compiling it if it is missing or older than its source. OSError with the reason if that
    fails.
    """
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        fresh = PROGRAM.with_suffix(f".{os.getpid()}")
        done = subprocess.run(["cc", "-O2", "-o", fresh, SOURCE], capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.splitlines()
            raise OSError(f"{SOURCE.name} does not compile: {next((x for x in lines if 'error' in x), lines[-1])}")
        fresh.replace(PROGRAM)
    return PROGRAM


class Pump:
    """The running program, and the counts that it reports."""

    def __init__(self, arguments: list[str], connections: list[socket], data: bytes = b"") -> None:
        descriptors = [each.fileno() for each in connections]
        self._process = subprocess.Popen(
            [build(), *arguments, *map(str, descriptors)], bufsize=0, pass_fds=descriptors,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._descriptor = self._process.stdout.fileno()
        self._received = b""
        with self._process.stdin as given:
            given.write(data)
        self._process.stdin = None  # or `communicate` would write to it

    def recv(self) -> Counted:
        """Return the next count. EOFError if the program has ended."""
        while b"\n" not in self._received:
            piece = os.read(self._descriptor, 4096)
            if not piece:
                raise EOFError
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


@contextmanager
def pumps(target: Target, shape: Shape, rate: float = 0.0) -> Iterator[tuple[Pump, Pump | None]]:
    """Run the producers, and the consumers if there are any. With a rate (messages a second, of all producers together)
    messages have stamps.
    """
    names, stamp = shape.names(), str(shape.size + 1) if rate else NO_STAMP
    with ExitStack() as stack:
        subscriptions = [Subscription(target, shape, names[number % len(names)]) for number in range(shape.consumers)]
        opened = list(producers(target, shape))
        for connection in (*(each.socket for each in subscriptions), *(connection for connection, _ in opened)):
            stack.callback(connection.close)
        consumers = None
        if subscriptions:
            (each,) = {subscription.bytes_each for subscription in subscriptions}
            arguments = ["consume", str(each), str(shape.prefetch), stamp]
            consumers = Pump(arguments, [subscription.socket for subscription in subscriptions])
            stack.callback(consumers.kill)
        data = b"".join(encode_burst(burst, shape.burst) for _, burst in opened)
        source = Pump(["produce", str(rate), stamp], [connection for connection, _ in opened], data)
        stack.callback(source.kill)
        yield source, consumers


def throughput(target: Target, pid: int | None, seconds: float, shape: Shape) -> dict[str, Any]:
    """Measure as `load.throughput.throughput` does."""
    with prepared(target, shape), pumps(target, shape) as (source, consumers):
        return measure(consumers or source, pid, seconds)


def latency(target: Target, pid: int | None, seconds: float, pace: Pace) -> dict[str, Any]:
    """Measure as `load.latency.latency` does."""
    shape = pace.shape
    with prepared(target, shape), pumps(target, shape, pace.rate * shape.producers) as (source, consumers):
        assert consumers is not None
        count_for(consumers, WARM_SECONDS)
        consumers.forget()
        before = cpu_seconds(pid) if pid else 0.0
        count_for(consumers, seconds)
        sent = int(source.end().split()[1])
        until = time.monotonic() + PATIENCE_SECONDS
        while (arrived := consumers.recv()[1]) < sent:
            if time.monotonic() > until:
                raise ConnectionError(f"only {arrived} of {sent} messages arrived")
        spent = cpu_seconds(pid) - before if pid else 0.0
        _, count, p50, p99, most = consumers.end().split()
    result = {"messages": int(count), "p50_ms": int(p50) / 1e6, "p99_ms": int(p99) / 1e6, "max_ms": int(most) / 1e6}
    if pid is not None:
        result["cpu_us_per_message"] = spent / max(int(count), 1) * 1e6
    return result


def count_for(pump: Pump, seconds: float) -> None:
    """Read counts for `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pump.recv()
