"""The ready messages of a queue as they are, for an operator: nothing is taken, counted, or marked as delivered."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.batch.batch_cy import Batch
from penstock.control.control import Refusal
from shard.contents.errors import StoreError
from shard.queue.copying import loaded
from shard.queue.queue_state import QueueState
from shard.turns.state import ShardState

MESSAGES_MOST = 1000
BYTES_MOST = 8 * 1024 * 1024
"""Bounds of one answer, which is made in one turn of the loop: messages, and the bytes of whole messages after which no
further one is read.
"""


def browse(state: ShardState, id: int, skip: int, count: int, body_bytes: int) -> dict[str, Any]:
    """Return up to `count` ready messages of a queue, in the order of their delivery, after the first `skip`; fewer if
    they are large:

    {ready, messages: [{exchange, routing_key, header, body, size}]}

    `header` (the payload of the content header) and the first `body_bytes` of the body are in base64; `size` is that of
    the whole body in bytes. Refusal if the queue is not here or cannot be read.
    """
    queue = state.queues.get(id)
    if queue is None:
        raise Refusal("not_found", "the queue is not on this shard; try again")
    if not 0 < count <= MESSAGES_MOST or skip < 0 or body_bytes < 0:
        raise Refusal("invalid", f"at most {MESSAGES_MOST} messages at once")
    found: list[dict[str, Any]] = []
    left = BYTES_MOST
    try:
        for batch, row in islice(_ready(queue, skip), count):
            found.append(_message(batch, row, body_bytes))
            left -= batch.whole(row, 1)
            if left <= 0:
                break
    except StoreError as error:
        raise Refusal("failed", f"{queue} cannot be read: {error.reason}") from None
    return {"ready": queue.contents.ready, "messages": found}


def _ready(queue: QueueState, skip: int) -> Iterator[tuple[Batch, int]]:
    """Yield the ready messages after the first `skip`, each as a row of a batch. StoreError if one cannot be read."""
    for segment, offset, number in queue.contents.survivors():
        if skip >= number:
            skip -= number
            continue
        batch, row = loaded(queue, segment)
        for each in range(offset + skip, offset + number):
            yield batch, row + each
        skip = 0


def _message(batch: Batch, row: int, body_bytes: int) -> dict[str, Any]:
    address, header, body = batch.record(row)
    key_at = address[0] + 1
    return {
        "exchange": address[1:key_at].decode("utf-8", "surrogateescape"),
        "routing_key": address[key_at + 1 :].decode("utf-8", "surrogateescape"),
        "header": base64.b64encode(header).decode(),
        "body": base64.b64encode(body[:body_bytes]).decode(),
        "size": len(body),
    }
