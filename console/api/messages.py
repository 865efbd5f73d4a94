"""Messages are published and got one request at a time, for people who look into a queue or try a route."""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from console.api.bodies import Invalid, body_of, integer, table, text
from console.api.declarations import exchange_of
from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import HttpError
from console.http.segments import Segment
from penstock.amqp.properties import PROPERTIES, PROPERTIES_AT, decode_properties, encode_properties

router = APIRouter(prefix="/api", tags=["messages"])

PAYLOAD_MOST = 8 * 1024 * 1024
"""Bytes of a message that is published over HTTP."""
ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
ENCODINGS = ("auto", "base64")


@router.post("/exchanges/{vhost}/{name}/publish")
async def publish(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Publish a message, and answer whether a queue has it."""
    body = await body_of(request, "routing_key", "properties", "payload", "payload_encoding")
    payload = _payload(body["payload"], body["payload_encoding"])
    if len(payload) > PAYLOAD_MOST:
        raise HttpError(413, f"the payload has {len(payload)} bytes, more than {PAYLOAD_MOST}")
    try:
        properties = encode_properties(_properties(table(body, "properties")))
    except (TypeError, ValueError) as error:
        raise Invalid(str(error)) from None
    key = text(body, "routing_key")
    try:
        return answer(await caller.publish(vhost, exchange_of(name), key, properties, payload))
    except OSError as error:
        raise HttpError(503, f"not confirmed: the message may be stored, or lost: {error}") from None


@router.post("/queues/{vhost}/{name}/get")
async def get(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Get up to `count` messages of a queue; the mode says what becomes of them. Together they are bounded in size."""
    body = await body_of(request, "ackmode", "count", "encoding")
    count = integer(body["count"])
    if count < 0:
        raise Invalid("count is negative")
    if body["encoding"] not in ENCODINGS:
        raise Invalid("Unsupported encoding. Please use auto or base64.")
    if body["ackmode"] not in ACK_MODES:
        raise Invalid(f"ackmode is not one of {', '.join(ACK_MODES)}")
    most = integer(body["truncate"]) if "truncate" in body else -1
    found = await caller.get(vhost, queue=name, count=count, ack_mode=body["ackmode"], body_bytes=max(most, -1))
    return answer([_shown(message, body["encoding"]) for message in found])


def _payload(payload: Any, encoding: Any) -> bytes:
    if not isinstance(payload, str):
        raise Invalid("payload_not_string")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise Invalid("unsupported_encoding", encoding)
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("not_base64", payload[:100]) from None


def _properties(given: Facts) -> Facts:
    """Return the properties of class basic among those given, each of its type; others are left out, as in RabbitMQ."""
    found: Facts = {}
    for name, domain in PROPERTIES:
        if name not in given:
            continue
        if domain == "table":
            found[name] = table(given, name)
        elif domain == "shortstr":
            found[name] = text(given, name)
        elif isinstance(given[name], int) and not isinstance(given[name], bool):
            found[name] = given[name]
        else:
            raise Invalid("not_int", name)
    return found


def _shown(message: Facts, encoding: str) -> Facts:
    """Return a message as RabbitMQ's management shows it; it writes no properties at all as an empty list."""
    properties = decode_properties(base64.b64decode(message["header"])[PROPERTIES_AT:])
    as_text = _text(base64.b64decode(message["body"])) if encoding == "auto" else None
    return {
        "payload_bytes": message["size"],
        "redelivered": message["redelivered"],
        "exchange": message["exchange"],
        "routing_key": message["routing_key"],
        "message_count": message["remaining"],
        "properties": _plain(properties) or [],
        "payload": message["body"] if as_text is None else as_text,
        "payload_encoding": "base64" if as_text is None else "string",
    }


def _text(payload: bytes) -> str | None:
    """Return a payload as text; None if it is not UTF-8."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _plain(value: Any) -> Any:
    """Return a value of AMQP as one of JSON."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return float(value) if isinstance(value, Decimal) else value
