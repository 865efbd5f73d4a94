"""Benchmark row: the processor time of declaring a queue that exists and is equal, as clients do before each use."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from load.processes import cpu_seconds
from load.target import Target
from load.wire import Method, Wire, short_string, table

QUEUE: Final = "load-redeclare"
QUEUE_DECLARE: Final[Method] = (50, 10)
QUEUE_DECLARE_OK: Final[Method] = (50, 11)
QUEUE_DELETE: Final[Method] = (50, 40)
QUEUE_DELETE_OK: Final[Method] = (50, 41)
DURABLE: Final = b"\x02"


def redeclare(target: Target, pid: int, seconds: float) -> dict[str, Any]:
    """Declare one durable queue again and again for `seconds`, each time after the answer to the last.

    Returns declarations, p50_ms, and cpu_us_per_declaration of the broker's process tree (root `pid`). OSError if the
    broker refuses one.
    """
    arguments = b"\0\0" + short_string(QUEUE) + DURABLE + table({})
    wire = Wire(target)
    took = []
    try:
        wire.call(QUEUE_DECLARE, arguments, QUEUE_DECLARE_OK)
        before, end = cpu_seconds(pid), time.monotonic() + seconds
        while (sent := time.monotonic()) < end:
            wire.call(QUEUE_DECLARE, arguments, QUEUE_DECLARE_OK)
            took.append(time.monotonic() - sent)
        spent = cpu_seconds(pid) - before
        wire.call(QUEUE_DELETE, b"\0\0" + short_string(QUEUE) + b"\0", QUEUE_DELETE_OK)
    finally:
        wire.close()
    return {
        "declarations": len(took),
        "p50_ms": statistics.median(took) * 1000,
        "cpu_us_per_declaration": spent / len(took) * 1e6,
    }
