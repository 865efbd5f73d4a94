"""Common parts of the tutorial-style programs: their work and their texts."""

from __future__ import annotations

GREETING = b"the gate is open"

TASKS = [b"task %d" % number for number in range(10)]

SEVERITIES = ["info", "warning", "error"]

LOGS = {
    "kern.critical": b"out of memory",
    "kern.info": b"disk mounted",
    "cron.critical": b"job lost",
    "cron.info": b"job run",
    "gate.left.critical": b"gate stuck",
}

TOPICS = {
    "#": list(LOGS.values()),
    "kern.*": [b"out of memory", b"disk mounted"],
    "*.critical": [b"out of memory", b"job lost"],
    "#.critical": [b"out of memory", b"job lost", b"gate stuck"],
}
"""Binding pattern -> bodies that must arrive, in the order of LOGS."""

BATCH = 500


def fibonacci(n: int) -> int:
    """Return the Fibonacci number that the RPC servers compute."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
