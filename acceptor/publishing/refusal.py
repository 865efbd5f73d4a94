"""Publishes that are refused because their producer has been held for as long as it may be: nacked, or returned.

A returned message has reply code 311 and headers that say why: x-flow-queue, x-flow-wait (milliseconds after which
another try is worthwhile), and by what the queue is limited x-flow-count, x-flow-stop-count, x-flow-resume-count,
x-flow-size, x-flow-stop-size, x-flow-resume-size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import DETACHED
from penstock.amqp.encode_cy import RETURN
from penstock.amqp.errors import amqp_error
from penstock.amqp.properties import PROPERTIES_AT
from penstock.amqp.splice import join_properties, join_table, number, split_properties, split_table, text
from penstock.batch.batch_cy import HAS_HEADERS, Batch, BatchBuilder

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.parked import ParkedRun
    from acceptor.gates.queue_gate import QueueGate
    from acceptor.holding.escalation import Escalations

CODE = 311
"""The reply code of messages that come back for want of room; `penstock.client.core.ROUTELESS` must not have it."""


def refuse(channel: ChannelState, run: ParkedRun, escalations: Escalations) -> None:
    """Refuse all of `run`. A producer without confirms and returns is not notified, as with reject-publish."""
    assert channel.refusing is not None
    escalations.refused(channel, run.count)
    if run.mandatory and channel.stage is not DETACHED:
        headers = reasons(channel.refusing, escalations.wait_at(channel.refusing))
        give_back(channel, str(channel.refusing), headers, run.batch, run.first, run.count)
    if channel.confirms is not None and run.tag:
        channel.confirms.complete(run.tag, run.count, True)
        channel.confirmed()
    run.advance(run.count)


def give_back(
    channel: ChannelState, why: str, headers: dict[bytes, bytes], batch: Batch, first: int, count: int
) -> None:
    """Return messages to their producer, with further headers."""
    reply_text = amqp_error(CODE, why).reply_text.encode()
    prefix = RETURN + CODE.to_bytes(2, "big") + bytes([len(reply_text)]) + reply_text
    returned = with_headers(batch, first, count, headers)
    channel.connection.write_contents(channel.number, prefix, 0, False, b"", returned, 0, returned.count)


def reasons(full: QueueGate, wait: float) -> dict[bytes, bytes]:
    """Return the headers that say why, as fields of a table."""
    marks = full.limits.marks
    count, size = full.depth()
    found = {
        b"x-flow-queue": text(full.name.encode("utf-8", "surrogateescape")),
        b"x-flow-wait": number(int(wait * 1000)),
    }
    if marks.stop_count:
        numbers = {b"count": count, b"stop-count": marks.stop_count, b"resume-count": marks.resume_count}
        found |= {b"x-flow-" + name: number(value) for name, value in numbers.items()}
    if marks.stop_bytes:
        numbers = {b"size": size, b"stop-size": marks.stop_bytes, b"resume-size": marks.resume_bytes}
        found |= {b"x-flow-" + name: number(value) for name, value in numbers.items()}
    return found


def with_headers(batch: Batch, first: int, count: int, added: dict[bytes, bytes]) -> Batch:
    """Return messages with further headers; the rest of them is unchanged."""
    builder = BatchBuilder()
    for i in range(first, first + count):
        address, header, body = batch.record(i)
        properties = split_properties(header[PROPERTIES_AT:])
        headers = split_table(properties["headers"]) if "headers" in properties else {}
        properties["headers"] = join_table({**headers, **added})
        builder.add(address, header[:PROPERTIES_AT] + join_properties(properties), body, batch.flags(i) | HAS_HEADERS)
    return builder.finish()
