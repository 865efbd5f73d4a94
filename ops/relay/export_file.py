"""Exported messages: a file of lines, each a JSON object.

    {"exchange": …, "routing_key": …, "properties": {…}, "encoded_properties": …, "body": …, "body_encoding": …}

`body` is text, or base64 if it is not UTF-8 (`body_encoding`: "utf-8" or "base64"). `properties` are for readers;
`encoded_properties`, in base64, are those of the content header as AMQP encodes them (4.2.6.1), and an import takes
only these. Only `body` is needed: without properties a message is persistent, and other fields are empty.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from ops.administration import messages
from ops.errors import CommandError
from ops.relay.delivery import Delivery
from penstock.amqp.properties import PROPERTIES_AT, encode_properties

PERSISTENT: Final = encode_properties({"delivery_mode": 2})
SHORT_BYTES: Final = 255
"""The longest name of an exchange, and routing key (AMQP 0-9-1, shortstr)."""

LINE_BYTES: Final = 1024**3
"""The longest line that is read: eight times the largest message."""


def line_of(message: dict[str, Any]) -> bytes:
    """Return the line for a message of `shard.browsing`."""
    shown = messages.shown(message)
    del shown["size"]
    encoded = base64.b64decode(message["header"])[PROPERTIES_AT:]
    return orjson.dumps(shown | {"encoded_properties": base64.b64encode(encoded).decode()}) + b"\n"


def lines_in(file: Path) -> int:
    """Return the number of lines. CommandError if the file cannot be read."""
    try:
        with file.open("rb") as lines:
            return sum(1 for _ in _lines(lines, file))
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None


def deliveries_in(file: Path, skip: int) -> Iterator[Delivery]:
    """Yield the messages of a file after the first `skip` lines. CommandError at a line that is none."""
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(_lines(lines, file), 1):
                if number > skip:
                    yield _delivery(line, f"{file}, line {number}")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None


def _lines(opened: BinaryIO, file: Path) -> Iterator[bytes]:
    """Yield the lines of an opened file. CommandError at one that is too long."""
    number = 0
    while line := opened.readline(LINE_BYTES):
        number += 1
        if len(line) == LINE_BYTES:
            raise CommandError(f"{file}, line {number}: longer than {LINE_BYTES} bytes")
        yield line


def _delivery(line: bytes, where: str) -> Delivery:
    try:
        found = orjson.loads(line)
        body = found["body"]
        encoding = found.get("body_encoding", "utf-8")
        data = base64.b64decode(body, validate=True) if encoding == "base64" else body.encode()
        encoded = found.get("encoded_properties")
        properties = PERSISTENT if encoded is None else base64.b64decode(encoded, validate=True)
        exchange, routing_key = found.get("exchange", ""), found.get("routing_key", "")
        fits = all(len(each.encode()) <= SHORT_BYTES for each in (exchange, routing_key))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(f"{where}: not an exported message") from None
    if not fits or encoding not in ("utf-8", "base64"):
        raise CommandError(f"{where}: not an exported message")
    return Delivery(0, exchange, routing_key, properties, data)
