"""Queues and messages for tests of single modules, without a node."""

from __future__ import annotations

from typing import Any

from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks, QueueLimits
from router.model.records import Queue as Record
from shard.contents.segment_cy import Range
from shard.queue.queue_state import QueueState
from shard.store.journal import Journal

BESIDE = 3 + 14 + 64
"""The bytes that a message of `batch_of` counts in addition to its body."""


def batch_of(*bodies: bytes, flags: int = 0) -> Batch:
    """Return a batch of messages without properties."""
    builder = BatchBuilder()
    for body in bodies:
        builder.add(b"\0\1q", b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + b"\0\0", body, flags)
    return builder.finish()


def bodies_of(items: list[Range]) -> list[bytes]:
    """Return the bodies of popped messages."""
    return [item.batch.record(item.first + row)[2] for item in items for row in range(item.count)]


def limits_of(
    overflow: Any = "flow", max_count: int | None = None, max_bytes: int | None = None, marks: Marks = Marks.NONE
) -> QueueLimits:
    """Return the limits of a queue."""
    return QueueLimits(max_count, max_bytes, overflow, marks)


def queue_of(
    limits: QueueLimits | None = None, now: int = 0, base: int = 0, journal: Journal | None = None,
    auto_delete: bool = False, **features: Any,
) -> QueueState:  # fmt: skip
    """Return an empty queue, durable if it has a journal."""
    wires = (limits or limits_of()).to_wire(), QueueFeatures(**features).to_wire()
    record = Record("/", "q", 7, 10, 0, journal is not None, auto_delete, None, {}, *wires)
    return QueueState(record, now, base, journal)
