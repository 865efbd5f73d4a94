"""How a node grows with its queues and its stored messages: declaring, memory, stop, start, the death of its router.

    python -m load.growth

For each size a broker is started on an empty data directory, the queues, all durable, are declared and bound, and the
broker is stopped and started again. Then its router is killed while one client makes 100 round trips a second (publish,
confirm, get) and another declares a queue. Printed are the longest round trip of the first client, and the time until
the second was answered. With `--messages`, that many persistent messages lie in 100 of the queues. Each line is a row
of the table in docs/operations.md: seconds, and MiB of all processes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from load.frames import QUEUE_BIND, QUEUE_DECLARE, QUEUE_DECLARE_OK, publish
from load.good_client import run
from load.node import LocalNode
from load.processes import MIB, living, settled_memory
from load.publisher import Publisher
from load.target import Target
from load.wire import Wire, method_frame, short_string, table

PASSIVE, DURABLE, DURABLE_NO_WAIT = b"\1", b"\2", b"\x12"
EXCHANGE = "amq.direct"
SIZES = [1000, 10_000, 100_000, 300_000]
DECLARERS = 8
PIECE = 500
MESSAGE_QUEUES = 100
MESSAGE_BYTES = 100
TOPOLOGY = {"max_topology_bytes": "2 GiB", "user_topology_percent": 100}
"""More than the largest size needs in each process."""
RATE = 100
BEFORE_SECONDS = 1.0
PATIENCE_SECONDS = 900.0
HEADER = ("queues", "messages", "declared", "memory", "stopped", "started", "memory then", "longest round trip",
          "declares again")  # fmt: skip


class Figures(NamedTuple):
    """The figures of one size: seconds, and MiB."""

    declared: float
    memory: float
    stopped: float
    started: float
    memory_then: float
    longest_trip: float
    declares_again: float


def name(number: int) -> str:
    return f"queue.{number}"


def declare(target: Target, count: int) -> None:
    """Declare `count` durable queues over several connections, each bound under its own name; return when all exist."""
    share = -(-count // DECLARERS)
    with ThreadPoolExecutor(DECLARERS) as declarers:
        shares = (range(first, min(first + share, count)) for first in range(0, count, share))
        list(declarers.map(partial(declare_some, target), shares))


def declare_some(target: Target, numbers: range) -> None:
    """Declare and bind the queues of these numbers on one connection."""
    wire = Wire(target, timeout=PATIENCE_SECONDS)
    for first in range(0, len(numbers), PIECE):
        names = [short_string(name(number)) for number in numbers[first : first + PIECE]]
        for each in names:
            head = b"\0\0" + each
            data = method_frame(1, QUEUE_DECLARE, head + DURABLE_NO_WAIT + table({}))
            data += method_frame(1, QUEUE_BIND, head + short_string(EXCHANGE) + each + b"\1" + table({}))
            wire.socket.sendall(data)
        wire.call(QUEUE_DECLARE, b"\0\0" + names[-1] + PASSIVE + table({}), QUEUE_DECLARE_OK)
    wire.close()


def store(target: Target, count: int) -> None:
    """Publish `count` persistent messages and wait for their confirms."""
    publisher = Publisher(target)
    each = count // MESSAGE_QUEUES
    for number in range(MESSAGE_QUEUES if each else 0):
        publisher.batch(publish(name(number), bytes(MESSAGE_BYTES), each, persistent=True), each)
    publisher.wire.close()


def until_declared(target: Target) -> float:
    """Declare one more queue and return how many seconds that took."""
    began = time.monotonic()
    wire = Wire(target, timeout=PATIENCE_SECONDS)
    wire.call(QUEUE_DECLARE, b"\0\0" + short_string("one more") + DURABLE + table({}), QUEUE_DECLARE_OK)
    wire.close()
    return time.monotonic() - began


def kill_router(node: LocalNode, seconds: float) -> tuple[float, float]:
    """Kill the router; return, in seconds, the good client's longest round trip and the time until a queue is
    declared.
    """
    found: list[float] = []

    def make_round_trips() -> None:
        found.append(run(node.target, "good", RATE, seconds)["slowest"])

    thread = threading.Thread(target=make_round_trips)
    thread.start()
    time.sleep(BEFORE_SECONDS)
    router = next(process for process in living(node.pid) if process.name() == "pstk-router-0")
    os.kill(router.pid, signal.SIGKILL)
    declares_again = until_declared(node.target)
    thread.join()
    return found[0], declares_again


def settings(**values: object) -> list[str]:
    """Return the options that set these."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def figures(directory: Path, queues: int, messages: int, seconds: float) -> Figures:
    """Measure one size."""
    options = settings(max_queues=2 * queues + 1000, **{"amqp.bindings_per_exchange": queues}, **TOPOLOGY)
    with LocalNode(directory, *options) as node:
        began = time.monotonic()
        declare(node.target, queues)
        declared = time.monotonic() - began
        store(node.target, messages)
        memory = settled_memory(node.pid).nbytes / MIB
        began = time.monotonic()
    stopped = time.monotonic() - began
    began = time.monotonic()
    with LocalNode(directory, *options) as node:
        started = time.monotonic() - began
        memory_then = settled_memory(node.pid).nbytes / MIB
        trip, again = kill_router(node, seconds)
    return Figures(declared, memory, stopped, started, memory_then, trip, again)


def main(
    sizes: Annotated[list[int] | None, typer.Argument(help="numbers of queues; default: 1,000 to 300,000")] = None,
    messages: Annotated[int, typer.Option(min=0, help="persistent messages, in 100 of the queues")] = 0,
    seconds: Annotated[float, typer.Option(min=2, help="how long the good client runs")] = 20.0,
) -> None:
    """Measure the growth of a node with queues and messages."""
    print("| " + " | ".join(HEADER) + " |\n|" + " ---: |" * len(HEADER))
    for queues in sizes or SIZES:
        with tempfile.TemporaryDirectory(prefix="growth-") as directory:
            found = figures(Path(directory), queues, messages, seconds)
        cells = [f"{queues:,}", f"{messages:,}"]
        cells += [f"{value:,.0f}" if "memory" in field else f"{value:.2f}" for field, value in found._asdict().items()]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    typer.run(main)
