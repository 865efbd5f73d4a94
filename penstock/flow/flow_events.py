"""Events of flow control as messages on the exchange `amq.flow` of a vhost.

The routing key is EVENT.VHOST.NAME; headers and body (as JSON) both carry the facts.
"""

from __future__ import annotations

from typing import Any

import orjson

from penstock.amqp.properties import encode_properties
from penstock.amqp.spec import BASIC_CLASS
from penstock.amqp.values import Timestamp
from penstock.batch.batch_cy import HAS_HEADERS, Batch, BatchBuilder
from penstock.text.utf8 import readable

EXCHANGE = "amq.flow"
SHORT_STRING_MAX = 255
INCIDENT_SECONDS = 1.0
"""A shorter stop is no incident; short stops are summed up (penstock/flow/short_stops.py)."""


def routing_key(facts: dict[str, Any]) -> str:
    """The routing key of an event: EVENT.VHOST.NAME."""
    return f"{facts['event']}.{facts['vhost']}.{facts['queue']}"


def event_batch(facts: dict[str, Any], seconds: int) -> Batch:
    """The message of an event; `seconds` since 1970."""
    builder = BatchBuilder()
    builder.add(*_message(routing_key(facts), facts, seconds), HAS_HEADERS)
    return builder.finish()


def _message(key: str, facts: dict[str, Any], seconds: int) -> tuple[bytes, bytes, bytes]:
    """Address, header and body."""
    body = orjson.dumps(readable(facts))
    properties = encode_properties(
        {
            "content_type": "application/json",
            "headers": facts,
            "timestamp": Timestamp(seconds),
            "type": f"flow.{facts['event']}",
            "app_id": "penstock",
        }
    )
    header = BASIC_CLASS.to_bytes(2, "big") + bytes(2) + len(body).to_bytes(8, "big") + properties
    data = key.encode("utf-8", "surrogateescape")[:SHORT_STRING_MAX]
    address = bytes([len(EXCHANGE)]) + EXCHANGE.encode() + bytes([len(data)]) + data
    return address, header, body
