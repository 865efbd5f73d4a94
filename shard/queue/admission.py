"""Admission of batches to queues that refuse messages beyond their limit (reject, reject-publish, reject-publish-dlx,
ring-strict).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.batch.batch_cy import Batch
from shard.contents.errors import StoreError
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import MAXLEN, UNLIMITED
from shard.contents.segment_cy import Range
from shard.queue.queue_state import QueueState

Refused = list[tuple[int, int]]
"""(first row, count) of messages that were refused."""
OldestUnacked = Callable[[QueueState], int | None]
"""Returns the lowest unacked sequence number of a queue; None if there is none."""


def admit(
    queue: QueueState, batch: Batch, first: int, count: int, now: int, deliver: Callable[[QueueState], None],
    oldest_unacked: OldestUnacked,
) -> Refused:  # fmt: skip
    """Enqueue the messages that fit and return the rest. `deliver` hands messages to consumers, which makes room."""
    refused: Refused = []
    end = first + count
    strict = queue.limits.overflow == "ring-strict"
    while first < end:
        taken = queue.fitting(batch, first, end - first)
        if not taken and strict and _make_room(queue, batch, first, oldest_unacked(queue)):
            taken = 1
        if taken:
            queue.enqueue(batch, first, taken, now)
            deliver(queue)
            first += taken
            continue
        start = first
        first = end if queue.is_full() and not (strict and _is_too_large(queue, batch, first)) else first + 1
        while not strict and first < end and not queue.fitting(batch, first, 1):
            first += 1
        refused.append((start, first - start))
    if queue.limits.overflow == "reject-publish-dlx" and queue.features.dead_letter_exchange is not None:
        for start, size in refused:
            queue.contents.dead.append((MAXLEN, Range(batch, start, size, -1, False, batch.body_bytes(start, size))))
    return refused


def admits(queue: QueueState, count: int, nbytes: int, oldest_unacked: OldestUnacked) -> bool:
    """Whether a queue accepts these messages and bytes at once.

    Messages for which consumers have credit take no room. A strict ring may drop everything while none of it is
    unacked.
    """
    limits = queue.limits
    messages, held = queue.counted
    if limits.overflow == "ring-strict" and oldest_unacked(queue) is None:
        messages, held = queue.pending.reserved, queue.pending.reserved_bytes
    taken = sum(max(consumer.credit(), 0) for level in queue.ring.levels for consumer in level.awake)
    if count <= taken:
        return True
    return (limits.max_count is None or messages + count - taken <= limits.max_count) and (
        limits.max_bytes is None or held + nbytes <= limits.max_bytes
    )


def take_all(
    queue: QueueState, batch: Batch, first: int, count: int, now: int, deliver: Callable[[QueueState], None],
    oldest_unacked: OldestUnacked,
) -> None:  # fmt: skip
    """Enqueue messages that were promised room, even if it is gone; a strict ring drops older messages for them if it
    may.
    """
    rest = [(first, count)]
    if queue.limits.overflow == "ring-strict":
        rest = admit(queue, batch, first, count, now, deliver, oldest_unacked)
    for start, size in rest:
        queue.enqueue(batch, start, size, now)


def _is_too_large(queue: QueueState, batch: Batch, row: int) -> bool:
    """Whether a message is larger than all that the queue may hold."""
    return queue.limits.max_bytes is not None and batch.body_bytes(row, 1) > queue.limits.max_bytes


def _make_room(queue: QueueState, batch: Batch, row: int, oldest_unacked: int | None) -> bool:
    """Drop the oldest messages of a strict ring, up to the first unacked one, until the message fits; return whether it
    does.
    """
    contents = queue.contents
    if _is_too_large(queue, batch, row):
        return False
    while not queue.fitting(batch, row, 1):
        behind = oldest_unacked is not None and (
            isinstance(contents, PriorityQueue) or contents.first_ready() > oldest_unacked
        )
        if behind or not contents.ready:
            return False
        try:
            contents.drop_head(contents.ready - 1, UNLIMITED)
        except StoreError:
            return False  # as dead letters the messages would have to be read first
    return True
