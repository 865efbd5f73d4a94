"""Messages that an operator looks at: their properties and bodies as text and JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.amqp.values import Timestamp
from penstock.text.utf8 import readable


def shown(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of `shard.browsing`, fit for JSON:

    {exchange, routing_key, properties, body, body_encoding, size}

    The body is text, or base64 if it is not UTF-8 (`body_encoding`: "utf-8" or "base64").
    """
    header, body = base64.b64decode(message["header"]), base64.b64decode(message["body"])
    properties: Any
    try:
        properties = {name: _plain(value) for name, value in decode_properties(header[PROPERTIES_AT:]).items()}
    except FrameSyntaxError as error:
        properties = {"unreadable": error.text}
    text, encoding = _text(body, whole=len(body) == message["size"]), "utf-8"
    if text is None:
        text, encoding = base64.b64encode(body).decode(), "base64"
    return {
        "exchange": readable(message["exchange"]),
        "routing_key": readable(message["routing_key"]),
        "properties": properties,
        "body": text,
        "body_encoding": encoding,
        "size": message["size"],
    }


def lines(number: int, message: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show a message of `shown`."""
    exchange = message["exchange"] or "the default exchange"
    yield f"{number}. to {exchange}, routing key '{message['routing_key']}', {message['size']} bytes"
    for name, value in message["properties"].items():
        yield f"   {name}: {value}"
    encoded = " (base64)" if message["body_encoding"] == "base64" else ""
    yield f"   body{encoded}: {message['body']}"


def _text(body: bytes, *, whole: bool) -> str | None:
    """Return a body as text, None if it is none. The last character of a body that was cut may be incomplete."""
    for cut in range(1 if whole else min(4, len(body) + 1)):
        try:
            return body[: len(body) - cut].decode()
        except UnicodeDecodeError:
            continue
    return None


def _plain(value: Any) -> Any:
    """Return a value of a field table, fit for JSON."""
    if isinstance(value, Timestamp):
        try:
            return datetime.fromtimestamp(value, UTC).isoformat()
        except (OverflowError, OSError, ValueError):
            return int(value)
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {readable(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(value)  # not of a subclass, which orjson does not know
    return value if value is None or isinstance(value, bool | int) else str(value)
