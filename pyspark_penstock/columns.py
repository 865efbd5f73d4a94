"""Messages as columns of Arrow: a record batch costs Spark a tenth of its rows one by one.

The properties are those of class basic (specification, section 1.8.1). Headers that are texts, numbers, booleans, times
or void are in the map `headers`, as texts; tables, lists and byte strings are in `headers_json`, one JSON object.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import pika
import pyarrow as pa

from pyspark_penstock.intake import Delivery
from pyspark_penstock.schema import COLUMNS, NUMBERS, TEXTS

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 64 * 1024 * 1024
"""Size of the bodies in a record batch in bytes: a column of Arrow ends at 2 GiB."""

_TYPES: Final[dict[str, Any]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""Arrow's types by the names of Spark's."""

ARROW_SCHEMA: Final = pa.schema([pa.field(name, _TYPES[kind.simpleString()]) for name, kind in COLUMNS.items()])


def record_batches(deliveries: Sequence[Delivery]) -> Iterator[pa.RecordBatch]:
    """Yield the rows, with the columns of SCHEMA, in order, in batches that Spark accepts."""
    first = nbytes = 0
    for at, delivery in enumerate(deliveries):
        if at - first == BATCH_ROWS or (at > first and nbytes + len(delivery.body) > BATCH_BYTES):
            yield _record_batch(deliveries[first:at])
            first, nbytes = at, 0
        nbytes += len(delivery.body)
    if first < len(deliveries):
        yield _record_batch(deliveries[first:])


def row_of(delivery: Delivery) -> tuple[Any, ...]:
    """Return a message's row, in the order of the columns."""
    return (
        delivery.body,
        delivery.exchange,
        delivery.routing_key,
        delivery.redelivered,
        *_properties(delivery.properties),
    )


def _record_batch(deliveries: Sequence[Delivery]) -> pa.RecordBatch:
    columns = zip(*map(row_of, deliveries), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


@lru_cache(maxsize=256)
def _properties(data: bytes) -> tuple[Any, ...]:
    """Return the columns that come from the properties. Many messages have the same properties, hence the cache."""
    properties = pika.BasicProperties().decode(data)
    simple, rest = _split(properties.headers or {})
    return (
        list(simple.items()),
        json.dumps(rest, default=_json, sort_keys=True) if rest else None,
        _time(properties.timestamp),
        *[getattr(properties, name) for name in NUMBERS],
        *[_decoded(getattr(properties, name)) for name in TEXTS],
    )


def _split(headers: Mapping[str, Any]) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Separate headers that a text can represent from the others."""
    simple: dict[str, str | None] = {}
    rest: dict[str, Any] = {}
    for name, value in headers.items():
        if isinstance(value, bytes | bytearray | Mapping | list):
            rest[name] = value
        else:
            simple[name] = _as_text(value)
    return simple, rest


def _as_text(value: Any) -> str | None:
    """Represent a value without parts as a text."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).isoformat()
    return str(value)


def _decoded(value: str | bytes | None) -> str | None:
    """Decode a short string, which pika leaves as bytes if it is not UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _time(seconds: int | None) -> datetime | None:
    """Convert a timestamp; None for one beyond Spark's range, as a timestamp in milliseconds is."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _json(value: Any) -> str | None:
    """Represent a value that JSON cannot: bytes as base64, times and decimals as texts."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal | datetime):
        return _as_text(value)
    raise TypeError(f"no header field is a {type(value).__name__}")
