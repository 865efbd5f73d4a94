"""The transformation of a message into a dead letter: its headers, its routing keys, and the check for cycles."""

from __future__ import annotations

from typing import NamedTuple

from penstock.amqp.properties import PROPERTIES_AT
from penstock.amqp.splice import (
    array,
    items,
    join_properties,
    join_table,
    number,
    shortstr,
    split_properties,
    split_table,
    table,
    text,
    text_of,
    timestamp,
)
from penstock.bus import MESSAGE_WEIGHT

REASONS = (b"expired", b"rejected", b"maxlen", b"delivery_limit")
"""Reasons of deaths, indexed by the numbers of `shard.contents.queue_cy`."""


Record = tuple[bytes, bytes, bytes]
"""Address, header and body of a message, as in `penstock.batch.batch_cy`."""


class Death(NamedTuple):
    """A death: the queue the message leaves, why, when (seconds since 1970), and where that queue sends it."""

    queue: bytes
    reason: bytes
    seconds: int
    exchange: bytes
    routing_key: bytes | None


class DeadLetter(NamedTuple):
    """The message to publish, its routing keys, and (queue, reason) of its deaths, newest first."""

    record: Record
    keys: list[bytes]
    deaths: list[tuple[bytes | None, bytes | None]]

    @property
    def whole(self) -> int:
        """Its whole bytes (`Batch.whole`)."""
        return sum(map(len, self.record)) + MESSAGE_WEIGHT

    def would_cycle(self, queue: bytes) -> bool:
        """Whether the letter would return to a queue where it died before, with no rejection since."""
        since = []
        for name, reason in self.deaths:
            since.append(reason)
            if name == queue:
                return b"rejected" not in since
        return False


def dead_letter(record: Record, death: Death) -> DeadLetter:
    """A message as it is published to the dead-letter exchange."""
    address, header, body = record
    size = address[0]
    exchange, key = address[1 : 1 + size], address[2 + size :]
    properties = split_properties(header[PROPERTIES_AT:])
    headers = split_table(properties["headers"]) if "headers" in properties else {}
    headers.pop(b"BCC", None)
    keys = [key, *texts(headers.get(b"CC", b""))]
    if death.routing_key is not None:
        headers.pop(b"CC", None)
    entry = _entry(death, exchange, keys, properties.pop("expiration", None))
    deaths = _with_death(headers, death, entry)
    _set_death_headers(headers, death, exchange)
    properties["headers"] = join_table(headers)
    to = keys if death.routing_key is None else [death.routing_key]
    return DeadLetter(
        (shortstr(death.exchange) + shortstr(to[0]), header[:PROPERTIES_AT] + join_properties(properties), body),
        to,
        deaths,
    )


def texts(field: bytes) -> list[bytes]:
    """The strings of an array that could be routing keys."""
    found = (text_of(item) for item in items(field))
    return [key for key in found if key is not None and len(key) <= 255]


def _entry(death: Death, exchange: bytes, keys: list[bytes], expiration: bytes | None) -> dict[bytes, bytes]:
    """The first entry of x-death for this queue and reason, its fields in RabbitMQ's order."""
    entry = {
        b"count": number(1),
        b"reason": text(death.reason),
        b"queue": text(death.queue),
        b"time": timestamp(death.seconds),
        b"exchange": text(exchange),
        b"routing-keys": array([text(key) for key in keys]),
    }
    if expiration is not None:
        entry[b"original-expiration"] = text(expiration[1:])
    return entry


def _with_death(
    headers: dict[bytes, bytes], death: Death, entry: dict[bytes, bytes]
) -> list[tuple[bytes | None, bytes | None]]:
    """Put a death first in x-death: a new entry, or the one for the same queue and reason counted up.

    Equal entries are merged, as with RabbitMQ; entries without a count (from before RabbitMQ 3.5) count one each.
    Elements that are not tables are left out.
    """
    known: dict[tuple[bytes | None, bytes | None], list[dict[bytes, bytes]]] = {}
    for item in items(headers.get(b"x-death", b"")):
        if item[:1] == b"F":
            fields = split_table(item[1:])
            known.setdefault((text_of(fields.get(b"queue")), text_of(fields.get(b"reason"))), []).append(fields)
    entries = {
        of: {**fields, b"count": fields.get(b"count", number(1 + len(more)))} for of, (fields, *more) in known.items()
    }
    again = entries.pop((death.queue, death.reason), None)
    first = entry if again is None else {**again, b"count": number(_count(again) + 1)}
    headers[b"x-death"] = array([table(fields) for fields in (first, *entries.values())])
    return [(death.queue, death.reason), *entries]


def _count(entry: dict[bytes, bytes]) -> int:
    field = entry.get(b"count", b"")
    known = int.from_bytes(field[1:], "big", signed=True) if field[:1] in (b"l", b"L", b"I") else 1
    return min(max(known, 1), 2**63 - 2)


def _set_death_headers(headers: dict[bytes, bytes], death: Death, exchange: bytes) -> None:
    """Set x-first-death-* once, x-last-death-* each time."""
    facts = ((b"reason", death.reason), (b"queue", death.queue), (b"exchange", exchange))
    if b"x-first-death-reason" not in headers:
        headers.update({b"x-first-death-" + name: text(value) for name, value in facts})
    headers.update({b"x-last-death-" + name: text(value) for name, value in facts})


def counted(header: bytes, deliveries: int) -> bytes:
    """A content header with the number of times its message was returned (x-delivery-count)."""
    properties = split_properties(header[PROPERTIES_AT:])
    headers = split_table(properties["headers"]) if "headers" in properties else {}
    headers[b"x-delivery-count"] = number(deliveries)
    properties["headers"] = join_table(headers)
    return header[:PROPERTIES_AT] + join_properties(properties)
