"""The three clocks, and the purpose of each.

**The node's clock** (`now_us`, `now`) is for everything that lasts: deadlines and ages, in memory and in files. It is
the time since the machine booted (CLOCK_BOOTTIME, which runs on during suspend) plus an offset that all processes of a
node have from its supervisor (`follow`). It counts microseconds since 1970 and started equal to the wall clock; setting
the wall clock later does not change it. `penstock.files.kept_clock` makes it continue where it stopped: exactly after a
restart of the node, and approximately after a reboot of the machine.

**The wall clock** (`wall_us`, `as_wall`) is for people, and for programs that read our files beside others: log,
telemetry, incidents and events, timestamps in messages, output of commands. Moments of the node's clock are converted
to the wall clock where they leave the node, by the offset at that time.

**The loop's clock** (CLOCK_MONOTONIC) is for timers, and for everything within an acceptor.

The functions are for shells. A core reads no clock: its shell sets its time, or hands it a `Clock`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def boot_us() -> int:
    """Microseconds since the machine booted, including time suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def wall_us() -> int:
    """Microseconds since 1970, as the machine's clock is set."""
    return time.time_ns() // 1000


_ahead_us = wall_us() - boot_us()


def adopt(ahead_us: int) -> None:
    """Adopt the clock of a node, which is `ahead_us` microseconds ahead of the time since boot."""
    global _ahead_us
    _ahead_us = ahead_us


def ahead_us() -> int:
    """How many microseconds the node's clock is ahead of the time since boot."""
    return _ahead_us


def now_us() -> int:
    """The node's clock, in microseconds; in a process that follows no node, the wall clock as it was at its start."""
    return boot_us() + _ahead_us


def now() -> float:
    """The node's clock, in seconds."""
    return now_us() / 1e6


def loop_began() -> float:
    """The node's clock, in seconds, when the loop's clock was 0; grows with each suspend of the machine."""
    return round(now() - time.monotonic(), 2)


@dataclass(frozen=True, slots=True)
class Clock:
    """The node's clock and the wall clock as handed to a core; both return microseconds since 1970."""

    now_us: Callable[[], int]
    wall_us: Callable[[], int]

    def now(self) -> float:
        """Return the time by the node's clock, in seconds."""
        return self.now_us() / 1e6

    def wall_ahead_us(self) -> int:
        """Return how many microseconds the wall clock is ahead of the node's clock; negative if it is behind.

        Rounded to hundredths of a second, so that a moment converted twice gives the same result.
        """
        return round(self.wall_us() - self.now_us(), -4)

    def as_wall(self, facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Convert the named moments of a record from the node's clock to the wall clock; seconds, or None."""
        ahead = self.wall_ahead_us() / 1e6
        return {**facts, **{name: facts[name] + ahead for name in names if facts[name] is not None}}


def own() -> Clock:
    """The clocks of this process."""
    return Clock(now_us, wall_us)


def wall_ahead_us() -> int:
    """How many microseconds the wall clock is ahead of this process's clock of the node (`Clock.wall_ahead_us`)."""
    return own().wall_ahead_us()


def as_wall(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Convert the named moments of a record by the clocks of this process (`Clock.as_wall`)."""
    return own().as_wall(facts, *names)
