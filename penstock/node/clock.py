"""Which clock is for what.

**The node's clock** (`now_us`, `now`) is for everything that lasts: deadlines and ages, in a process's life and in what
is stored. It is the time since the machine was started (CLOCK_BOOTTIME, which goes on while it is suspended) and a
distance that all processes of a node have from its supervisor (`follow`). It reads as microseconds since 1970 and began
as the wall clock did; whoever sets that later does not set this one. `penstock.files.kept_clock` has it go on where it
was: exactly after a restart of the node, and as far as can be known after one of the machine.

**The wall clock** (`wall_us`, `as_wall`) is for people, and for who reads our files beside others: log, telemetry,
incidents and events, timestamps in messages, what commands print. Moments of the node's clock become those of the wall
clock where they leave the node, as far ahead as that is then.

**The loop's clock** (CLOCK_MONOTONIC) is for timers, and for all of an acceptor's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def boot_us() -> int:
    """Microseconds since the machine was started, whether it ran or was suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def wall_us() -> int:
    """Microseconds since 1970, as the machine's clock is set."""
    return time.time_ns() // 1000


_ahead_us = wall_us() - boot_us()


def follow(ahead_us: int) -> None:
    """Have the clock of a node, which is so far ahead of the time since the machine was started."""
    global _ahead_us
    _ahead_us = ahead_us


def ahead_us() -> int:
    """How far the node's clock is ahead of the time since the machine was started."""
    return _ahead_us


def now_us() -> int:
    """The node's clock, in microseconds; of a process that follows no node, the wall clock's as it was at its start."""
    return boot_us() + _ahead_us


def now() -> float:
    """The same in seconds."""
    return now_us() / 1e6


def loop_began() -> float:
    """What the node's clock says when that of loops is at 0, in seconds: more once the machine was suspended."""
    return round(now() - time.monotonic(), 2)


def wall_ahead_us() -> int:
    """How far the wall clock is ahead of the node's clock at present; below 0 if it is behind.

    In hundredths of a second, so that a moment that is told again is the same one.
    """
    return round(wall_us() - now_us(), -4)


def as_wall(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A record in which the moments of those names, in seconds of the node's clock or None, are the wall clock's."""
    ahead = wall_ahead_us() / 1e6
    return {**facts, **{name: facts[name] + ahead for name in names if facts[name] is not None}}
