"""System calls of chosen threads, recorded by the kernel (ftrace, Documentation/trace/ftrace.rst of Linux).

The recording has an instance of tracefs of its own, so it disturbs no other one. It needs root.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TRACEFS = Path("/sys/kernel/tracing")
BUFFER_KIB = 32768
"""Of each processor: some ten thousand messages."""
EVENTS = ("syscalls", "sched/sched_switch")
LINE = re.compile(r"^\s*.+-(?P<thread>\d+)\s+\[\d+\]\s+\S+\s+(?P<seconds>\d+)\.(?P<micros>\d{6}): (?P<event>.+)$")
ENTERED = re.compile(r"sys_(?P<name>\w+)\(")
LEFT = re.compile(r"sys_(?P<name>\w+) -> 0x(?P<result>[0-9a-f]+)")
SLEEPS = re.compile(r"sched_switch: .* prev_state=[SD]\S* ==>")
NEGATIVE = 1 << 63


class Call(NamedTuple):
    """A system call of a thread: microseconds of the monotonic clock, and its result."""

    thread: int
    name: str
    began: int
    ended: int
    result: int


class Sleep(NamedTuple):
    """A thread gave its processor away to wait."""

    thread: int
    at: int


class Recording:
    """A recording that is under way, in its instance of tracefs."""

    def __init__(self, instance: Path) -> None:
        self._instance = instance

    def end(self) -> list[str]:
        """End it, and return its lines."""
        (self._instance / "tracing_on").write_text("0")
        return (self._instance / "trace").read_text(errors="replace").splitlines()


@contextmanager
def recording(threads: Iterable[int]) -> Iterator[Recording]:
    """Record these threads; the kernel discards the recording when the context ends. OSError if it cannot record."""
    if not (TRACEFS / "instances").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=False, capture_output=True)
    instance = TRACEFS / "instances" / f"penstock-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        (instance / "set_event_pid").write_text("\n".join(map(str, threads)))
        for event in EVENTS:
            (instance / "events" / event / "enable").write_text("1")
        yield Recording(instance)
    finally:
        instance.rmdir()


def parse(lines: Iterable[str]) -> tuple[list[Call], list[Sleep]]:
    """Parse a recording: its whole calls, in the order of their ends, and its sleeps."""
    open_calls: dict[int, tuple[str, int]] = {}
    calls, sleeps = [], []
    for line in lines:
        found = LINE.match(line)
        if found is None:
            continue
        thread, at, event = (
            int(found["thread"]),
            int(found["seconds"]) * 1_000_000 + int(found["micros"]),
            found["event"],
        )
        if entered := ENTERED.match(event):
            open_calls[thread] = entered["name"], at
        elif left := LEFT.match(event):
            name, began = open_calls.pop(thread, ("", 0))
            if name == left["name"]:
                result = int(left["result"], 16)
                calls.append(Call(thread, name, began, at, result if result < NEGATIVE else result - (NEGATIVE << 1)))
        elif SLEEPS.match(event):
            sleeps.append(Sleep(thread, at))
    return calls, sleeps
