"""Where dead letters came from, by the headers with which brokers mark them (RabbitMQ: dead letter exchanges)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import decode_some


class Origin(NamedTuple):
    """The exchange and routing key with which a message was published before its first death, and the queue in which
    it died. `exchange` is None if only the queue is known.
    """

    exchange: str | None
    routing_key: str
    queue: str


def origin_of(properties: bytes) -> Origin | None:
    """Return the origin of a message with these properties, as a content header has them; None if it is no dead
    letter.
    """
    death = _first_death(properties)
    if death is None:
        return None
    exchange, keys = death.get("exchange"), death.get("routing-keys")
    if not isinstance(exchange, str) or not (isinstance(keys, list) and keys and isinstance(keys[0], str)):
        return Origin(None, "", death["queue"])
    return Origin(exchange, keys[0], death["queue"])


def _first_death(properties: bytes) -> Mapping[str, Any] | None:
    """Return the entry of `x-death` for the first death: the entry that `x-first-death-queue` and
    `x-first-death-reason` name, or else the last one, as later deaths are put before it. Without an entry the queue
    alone, and None without a queue.
    """
    try:
        headers = decode_some(properties, ("headers",)).get("headers")
    except FrameSyntaxError:
        return None
    if not isinstance(headers, Mapping):
        return None
    deaths = headers.get("x-death")
    entries: list[Mapping[str, Any]] = []
    if isinstance(deaths, list):
        entries = [each for each in deaths if _is_death(each)]
    queue, reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    for entry in entries:
        if (entry["queue"], entry.get("reason")) == (queue, reason):
            return entry
    if entries:
        return entries[-1]
    return {"queue": queue} if isinstance(queue, str) and queue else None


def _is_death(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("queue"), str) and bool(entry["queue"])
