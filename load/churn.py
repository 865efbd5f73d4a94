"""Benchmark row: connections opened and closed a second, each with one channel."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

from load.processes import cpu_seconds
from load.target import Target
from load.wire import Wire

Times = list[float]


def churn(target: Target, pid: int | None, seconds: float, concurrency: int) -> dict[str, Any]:
    """Open and close connections for `seconds` in `concurrency` processes, one at a time in each.

    Returns connections (opened and closed), connections_per_second, p50_ms and p99_ms of one (from connect to
    close-ok), and, if `pid` is the broker's, its cpu_us_per_connection. Raises the first error of a client.
    """
    context = multiprocessing.get_context("spawn")
    clients = []
    for _ in range(concurrency):
        ours, theirs = context.Pipe()
        process = context.Process(target=client, args=(target, seconds, theirs), daemon=True)
        process.start()
        theirs.close()
        clients.append((process, ours))
    for _, ours in clients:
        received(ours)  # ready: the clients begin together once all are
    before = cpu_seconds(pid) if pid else 0.0
    for _, ours in clients:
        ours.send(None)
    answers = [received(ours) for _, ours in clients]
    spent = cpu_seconds(pid) - before if pid else None
    for process, _ in clients:
        process.join()
    return summary(answers, seconds, spent)


def received(pipe: Connection) -> Times | Exception:
    """Receive a client's message; ConnectionError, returned and not raised, if the client died."""
    try:
        answer: Times | Exception = pipe.recv()
    except (EOFError, OSError):
        answer = ConnectionError("a client process of the benchmark died")
    return answer


def client(target: Target, seconds: float, pipe: Connection) -> None:
    """Run one client process: report ready, wait for the start, then open and close connections.

    Sends the duration of each in seconds, or the error.
    """
    took: Times = []
    pipe.send(took)
    pipe.recv()
    end = time.monotonic() + seconds
    try:
        while (opened := time.monotonic()) < end:
            Wire(target).close()
            took.append(time.monotonic() - opened)
    except OSError as error:
        pipe.send(ConnectionError(f"{target}, connection {len(took) + 1} of a client: {error}"))
    else:
        pipe.send(took)


def summary(answers: list[Times | Exception], seconds: float, spent: float | None) -> dict[str, Any]:
    """Compute the row's figures from the durations of all clients; raise the first error among the answers."""
    took: Times = []
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        took.extend(answer)
    percentiles = statistics.quantiles(took, n=100) if len(took) > 1 else [float("nan")] * 99
    result = {
        "connections": len(took),
        "connections_per_second": len(took) / seconds,
        "p50_ms": percentiles[49] * 1000,
        "p99_ms": percentiles[98] * 1000,
    }
    if spent is not None and took:
        result["cpu_us_per_connection"] = spent / len(took) * 1e6
    return result
