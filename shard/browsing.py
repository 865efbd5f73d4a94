"""The ready messages of a queue as they are, for an operator: nothing is taken, counted, or marked as delivered."""

from __future__ import annotations

import base64
from typing import Any

from penstock.batch.batch_cy import Batch
from penstock.control.control import Refusal
from shard.contents.errors import StoreError
from shard.queue.copying import loaded
from shard.turns.state import ShardState

MESSAGES_MOST = 1000
BYTES_MOST = 8 * 1024 * 1024
"""Bounds of one answer: it is made in one turn of the loop."""


def browse(state: ShardState, id: int, skip: int, count: int, body_bytes: int) -> dict[str, Any]:
    """Return up to `count` ready messages of a queue, in the order of their delivery, after the first `skip`:

    {ready, messages: [{exchange, routing_key, header, body, size}]}

    `header` (the payload of the content header) and the first `body_bytes` of the body are in base64; `size` is that of
    the whole body in bytes. Refusal if the queue is not here or cannot be read.
    """
    queue = state.queues.get(id)
    if queue is None:
        raise Refusal("not_found", "the queue is not on this shard; try again")
    if not 0 < count <= MESSAGES_MOST or skip < 0 or not 0 <= body_bytes * count <= BYTES_MOST:
        raise Refusal("invalid", f"at most {MESSAGES_MOST} messages and {BYTES_MOST} bytes of bodies at once")
    found: list[dict[str, Any]] = []
    try:
        for segment, offset, number in queue.contents.survivors():
            if skip >= number:
                skip -= number
                continue
            if len(found) == count:
                break
            batch, row = loaded(queue, segment)
            rows = range(row + offset + skip, row + offset + number)
            found += (_message(batch, each, body_bytes) for each in rows[: count - len(found)])
            skip = 0
    except StoreError as error:
        raise Refusal("failed", f"{queue} cannot be read: {error.reason}") from None
    return {"ready": queue.contents.ready, "messages": found}


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
