"""Gauges for tests: their size, and access to their file past all methods."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from penstock.memory.gauges import Gauges, QueueCounters, QueueGauge, QueueMarks

ACCEPTORS, SHARDS, QUEUES = 3, 2, 100
SLOTS = SHARDS + QUEUES
PROCESS_SIZE, COUNTERS_AT, MEASURES_AT, FLOW_AT, SLOT_SIZE, NAMES_SIZE = 768, 128, 320, 384, 256, 512

words = st.integers(0, 2**64 - 1)


def make(path: Path, pid: int | None = None, queues: int = QUEUES) -> Gauges:
    return Gauges.create(
        path, epoch=17, acceptors=ACCEPTORS, shards=SHARDS, queues=queues, pid=os.getpid() if pid is None else pid
    )


def row(value: int, saturated: int = 1) -> list[int]:
    """Return arguments of queue_write that are `value`, except the flag `saturated`."""
    return [value] * 11 + [saturated] + [value] * 6


def reading(**fields: Any) -> QueueGauge:
    """Return a reading of a queue's gauge in which all numbers but these are 0; counters and marks may be given too."""
    counters = QueueCounters(*(fields.pop(name, 0) for name in QueueCounters._fields))
    marks = QueueMarks(*(fields.pop(name, 0) for name in QueueMarks._fields))
    zero: dict[str, Any] = dict.fromkeys(QueueGauge._fields, 0)
    return QueueGauge(**{**zero, "vhost": "/", "name": "q", "counters": counters, "marks": marks, **fields})


def word(path: Path, at: int, value: int | None = None) -> int:
    """Return a word of the file, past all methods; write `value` first if one is given."""
    with path.open("r+b", buffering=0) as file:
        if value is not None:
            os.pwrite(file.fileno(), struct.pack("=Q", value), at)
        return int(struct.unpack("=Q", os.pread(file.fileno(), 8, at))[0])


def break_off(path: Path, block: int) -> None:
    """Leave a record as a writer does that dies in mid-write."""
    word(path, block, word(path, block) + 1)
