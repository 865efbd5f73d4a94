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

START_SECONDS = 1.0
"""From the start of the client processes until all of them begin at once."""


def churn(target: Target, pid: int | None, seconds: float, concurrency: int) -> dict[str, Any]:
    """Open and close connections for `seconds` in `concurrency` processes, one at a time in each.

    Returns connections (opened and closed), connections_per_second, p50_ms and p99_ms of one (from connect to
    close-ok), and, if `pid` is the broker's, its cpu_us_per_connection. The first error of a client is raised.
    """
    context = multiprocessing.get_context("spawn")
    begin = time.monotonic() + START_SECONDS
    clients = []
    for _ in range(concurrency):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=client, args=(target, begin, seconds, theirs), daemon=True)
        process.start()
        theirs.close()
        clients.append((process, ours))
    time.sleep(max(0.0, begin - time.monotonic()))
    before = cpu_seconds(pid) if pid else 0.0
    answers = [received(ours) for _, ours in clients]
    spent = cpu_seconds(pid) - before if pid else None
    for process, _ in clients:
        process.join()
    return summary(answers, seconds, spent)


def received(pipe: Connection) -> list[float] | Exception:
    try:
        answer: list[float] | Exception = pipe.recv()
    except EOFError:
        answer = ConnectionError("a client process of the benchmark died")
    return answer


def client(target: Target, begin: float, seconds: float, answer: Connection) -> None:
    """One process: waits for the common start, then opens and closes. Sends the seconds each took, or the error."""
    took: list[float] = []
    time.sleep(max(0.0, begin - time.monotonic()))
    try:
        while (opened := time.monotonic()) < begin + seconds:
            Wire(target).close()
            took.append(time.monotonic() - opened)
    except OSError as error:
        answer.send(ConnectionError(f"{target}, connection {len(took) + 1} of a client: {error}"))
    else:
        answer.send(took)


def summary(answers: list[list[float] | Exception], seconds: float, spent: float | None) -> dict[str, Any]:
    """The row's figures from the times of all clients."""
    took: list[float] = []
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
