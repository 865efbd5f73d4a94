"""The body of every test message: who sent it, which one it is, and when.

    0        8            12          16
    | time   | sequence   | producer  | filling up to the wanted size
      uint64   uint32       uint32      native byte order

Time is CLOCK_MONOTONIC in nanoseconds, so latency means something between processes of one machine only.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

_HEAD = struct.Struct("=QII")
HEAD_SIZE = _HEAD.size


class Stamp(NamedTuple):
    """What a body says about itself: nanoseconds of CLOCK_MONOTONIC, sequence from 0 up per producer, producer."""

    sent_ns: int
    sequence: int
    producer: int


def stamped(sequence: int, producer: int, size: int) -> bytes:
    """A body of `size` octets (at least `HEAD_SIZE`), stamped with the time of this call."""
    return _HEAD.pack(time.monotonic_ns(), sequence & 0xFFFFFFFF, producer).ljust(size, b"x")


def read_stamp(body: bytes) -> Stamp | None:
    """The stamp of a body; None if it is too short to have one."""
    return Stamp._make(_HEAD.unpack_from(body)) if len(body) >= HEAD_SIZE else None
