"""Checks of the clocks: whether the time of day is kept right, and how long it takes to read one."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from ops.doctor.finding import Finding, advice, ok

UNSYNCHRONIZED = 5
"""TIME_ERROR, the state of a clock that nothing keeps right (adjtimex(2))."""
TIMEX_BYTES = 512
"""More than the kernel's struct timex has; its `modes` of 0 change nothing."""
READINGS = 10_000
SLOW_NS = 500
"""Of a reading; a clock that the processor has takes less than 100."""
SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def synchronized(state: int | None = None) -> Finding:
    """Check that something keeps the machine's clock right."""
    state = _state() if state is None else state
    if state == UNSYNCHRONIZED:
        text = "nothing keeps the machine's clock right, by which certificates and tokens expire"
        return advice(
            "clock", text, "timedatectl set-ntp true, or start chrony; not in a container, but on its machine"
        )
    return ok("clock", "synchronized" if state >= 0 else "cannot be asked here")


def readings(nanoseconds: float | None = None, source: Path = SOURCE) -> Finding:
    """Check that the clock is read without a call of the kernel: each process reads it many thousand times a second."""
    took = _reading_ns() if nanoseconds is None else nanoseconds
    name = source.read_text().strip() if source.exists() else "unknown"
    text = f"a reading takes {took:.0f} ns (clock source {name})"
    if took > SLOW_NS:
        remedy = "one of /sys/devices/system/clocksource/clocksource0/available_clocksource, tsc if it is there"
        return advice("clock source", text, remedy)
    return ok("clock source", text)


def _state() -> int:
    """Return the state of the kernel's clock; -1 if it does not say."""
    libc = ctypes.CDLL(None, use_errno=True)
    timex = ctypes.create_string_buffer(TIMEX_BYTES)
    return int(libc.adjtimex(timex))


def _reading_ns() -> float:
    begun = time.perf_counter_ns()
    for _ in range(READINGS):
        time.monotonic_ns()
    return (time.perf_counter_ns() - begun) / READINGS
