"""The cost of flow control: limits that are not reached, held producers, and the delay of a resume to a producer.

    python -m load.flow_cost

Four figures, from a broker started for them: throughput of a queue with limits that are never reached against an
unlimited one, in turn, and of a second unlimited queue against the first; CPU time of the broker for 1,000 held
producers against 1,000 idle connections; the same for a few and for all producers held by one rate; time from a queue's
resume, as the gauges show it, until a held producer receives connection.unblocked.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from load.frames import publish
from load.node import LocalNode
from load.probe import prepare
from load.processes import allow_open_files, cpu_seconds
from load.throughput import Shape, throughput
from load.wire import Method, Wire, method_frame, short_string

QUEUE_PURGE: Method = (50, 30)
QUEUE_PURGE_OK: Method = (50, 31)
CONNECTION_BLOCKED = struct.pack("!HH", 10, 60)
CONNECTION_UNBLOCKED = struct.pack("!HH", 10, 61)
BODY = 256
SPARE_FILES = 100
NEVER = 1_000_000_000
LIMITS: dict[str, dict[str, int]] = {
    "marks": {"x-flow-stop-count": NEVER, "x-flow-stop-size": NEVER * 1000},
    "rates": {"x-max-rate": NEVER, "x-max-rate-bytes": NEVER * 1000},
    "control": {},
}
"""Limits that are not reached; and none, to see how much equal measurements differ."""
HELD_MESSAGES = 1000
HELD_SECONDS = 5.0
REST_SECONDS = 5.0
RATE = 100
FEW = 10


def compare_throughput(node: LocalNode, seconds: float, runs: int) -> dict[str, Any]:
    """Compare queues with limits against an unlimited one, in turn: the medians of each run's ratio to the unlimited
    queue's run of the same round, in throughput and in CPU time a message.
    """
    shapes = {name: Shape(BODY, arguments=limits) for name, limits in {"unlimited": {}, **LIMITS}.items()}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in shapes}
    names = list(shapes)
    for at in range(runs):
        for name in (*names[at % len(names) :], *names[: at % len(names)]):
            found[name].append(throughput(node.target, node.pid, seconds, shapes[name]))
    plain = found["unlimited"]

    def ratio(name: str, figure: str) -> float:
        pairs = zip(found[name], plain, strict=True)
        median: float = statistics.median(run[figure] / other[figure] for run, other in pairs)
        return round(median, 3)

    report: dict[str, Any] = {
        "unlimited_per_second": round(statistics.median(run["messages_per_second"] for run in plain))
    }
    for name in LIMITS:
        report[name] = {"throughput": ratio(name, "messages_per_second"), "cpu": ratio(name, "cpu_us_per_message")}
    return report


def held_cpu(node: LocalNode, connections: int) -> dict[str, Any]:
    """Measure CPU time of the broker in milliseconds a second: with idle connections, and with all of them held."""
    queue = "cost-held"
    prepare(node.target, queue, {"x-flow-stop-count": 10})
    with connected(node, connections) as wires:
        idle = cpu_ms_per_second(node.pid, HELD_SECONDS)
        fill(wires, publish(queue, bytes(BODY), HELD_MESSAGES))
        held = cpu_ms_per_second(node.pid, HELD_SECONDS)
    return {"connections": connections, "idle_ms_per_second": round(idle, 1), "held_ms_per_second": round(held, 1)}


def rated_cpu(node: LocalNode, connections: int) -> dict[str, Any]:
    """Measure CPU time of the broker, in milliseconds a second, at a queue with a limited rate: with idle connections,
    with a few of them held, and with all of them held.
    """
    queue = "cost-rated"
    prepare(node.target, queue, {"x-max-rate": RATE})
    nbytes = publish(queue, bytes(BODY), HELD_MESSAGES)
    with connected(node, connections) as wires:
        idle = cpu_ms_per_second(node.pid, HELD_SECONDS)
        fill(wires[:FEW], nbytes)
        few = cpu_ms_per_second(node.pid, HELD_SECONDS)
        fill(wires[FEW:], nbytes)
        held = cpu_ms_per_second(node.pid, HELD_SECONDS)
    figures = {"idle": idle, f"{FEW}_held": few, "all_held": held}
    return {"connections": connections, **{f"{name}_ms_per_second": round(each, 1) for name, each in figures.items()}}


@contextmanager
def connected(node: LocalNode, connections: int) -> Iterator[list[Wire]]:
    """Yield `connections` open connections."""
    allow_open_files(connections + SPARE_FILES)
    wires = [Wire(node.target) for _ in range(connections)]
    try:
        yield wires
    finally:
        for wire in wires:
            wire.socket.close()


def fill(wires: list[Wire], data: bytes) -> None:
    """Write to each socket as much as it accepts, then wait for the broker to come to rest."""
    for wire in wires:
        wire.socket.setblocking(False)
        try:
            wire.socket.send(data)
        except BlockingIOError:
            continue
    time.sleep(REST_SECONDS)


def cpu_ms_per_second(pid: int, seconds: float) -> float:
    """Return the CPU time of a process tree, in milliseconds a second."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds * 1000


def resumes(node: LocalNode, rounds: int) -> dict[str, Any]:
    """Measure the milliseconds from a resume until a held producer receives connection.unblocked."""
    queue = "cost-resume"
    prepare(node.target, queue, {"x-flow-stop-count": 100, "x-flow-resume-count": 50})
    producer = Wire(node.target, capabilities=("connection.blocked",))
    purger = Wire(node.target)
    arguments = struct.pack("!H", 0) + short_string(queue)
    purge = method_frame(1, QUEUE_PURGE, arguments + b"\1")  # its answer would come in between
    nbytes = publish(queue, bytes(BODY), 150)
    took = []
    try:
        for _ in range(rounds):
            producer.socket.sendall(nbytes)
            until(lambda: saturated(node, queue))
            read_until(producer, CONNECTION_BLOCKED)
            time.sleep(0.02)
            purger.socket.sendall(purge)
            until(lambda: not saturated(node, queue))
            resumed = time.perf_counter()
            read_until(producer, CONNECTION_UNBLOCKED)
            took.append((time.perf_counter() - resumed) * 1000)
            time.sleep(0.02)
            purger.call(QUEUE_PURGE, arguments + b"\0", QUEUE_PURGE_OK)
            time.sleep(0.02)
    finally:
        producer.socket.close()
        purger.socket.close()
    took.sort()
    return {
        "rounds": rounds,
        "median_ms": round(statistics.median(took), 3),
        "percentile_95_ms": round(took[int(rounds * 0.95)], 3),
    }


def saturated(node: LocalNode, queue: str) -> bool:
    """Whether the queue is saturated by its gauge."""
    state = node.flow_state(queue)
    return state is not None and state.saturated


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, without sleeping."""
    while not condition():
        pass


def read_until(wire: Wire, method: bytes) -> None:
    """Read until the broker sends `method`. Earlier frames are not the one waited for."""
    received = b""
    while method not in received:
        received += wire.socket.recv(4096)


def main(
    seconds: Annotated[float, typer.Option(min=1, help="length of each measurement of throughput")] = 1.5,
    runs: Annotated[int, typer.Option(min=1, help="measurements of throughput, of each kind")] = 8,
    connections: Annotated[int, typer.Option(min=1, help="held producers")] = 1000,
    rounds: Annotated[int, typer.Option(min=20, help="resumes")] = 200,
) -> None:
    """Print the cost of flow control."""
    with tempfile.TemporaryDirectory(prefix="penstock-cost-") as directory, LocalNode(Path(directory)) as node:
        print("throughput", compare_throughput(node, seconds, runs), flush=True)
        print("held", held_cpu(node, connections), flush=True)
        print("rated", rated_cpu(node, connections), flush=True)
        print("resume", resumes(node, rounds), flush=True)


if __name__ == "__main__":
    typer.run(main)
