"""The body of every test message: its sender, number and time.

    0        8            12          16
    | time   | sequence   | producer  | padding to the wanted size
      uint64   uint32       uint32      native byte order

Time is CLOCK_MONOTONIC in nanoseconds, so latency is meaningful only between processes of one machine.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

_HEAD = struct.Struct("=QII")
HEAD_SIZE = _HEAD.size


class Stamp(NamedTuple):
    """The head of a body: nanoseconds of CLOCK_MONOTONIC, sequence number from 0 up per producer, and producer."""

    sent_ns: int
    sequence: int
    producer: int


def stamped(sequence: int, producer: int, size: int) -> bytes:
    """Return a body of `size` bytes (at least `HEAD_SIZE`), stamped with the time of this call."""
    return _HEAD.pack(time.monotonic_ns(), sequence & 0xFFFFFFFF, producer).ljust(size, b"x")


def read_stamp(body: bytes) -> Stamp | None:
    """Return the stamp of a body; None if the body is too short to have one."""
    return Stamp._make(_HEAD.unpack_from(body)) if len(body) >= HEAD_SIZE else None
