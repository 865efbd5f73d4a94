"""A message as a row in Spark: the body, the delivery's fields, its properties and its headers (`columns`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXTS: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type", "user_id",
    "app_id",
)  # fmt: skip
NUMBERS: Final = ("delivery_mode", "priority")

COLUMNS: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "redelivered": BooleanType(),
    "headers": MapType(StringType(), StringType()),
    "headers_json": StringType(),
    "timestamp": TimestampType(),
    **{name: IntegerType() for name in NUMBERS},
    **{name: StringType() for name in TEXTS},
}

SCHEMA: Final = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])


class RowError(ValueError):
    """No message can be made of the columns or the row; the text says why."""


def properties_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties to publish with, from columns by name; None or an absent column means none. RowError."""
    found = {name: row[name] for name in (*NUMBERS, *TEXTS) if row.get(name) is not None}
    if (timestamp := row.get("timestamp")) is not None:
        found["timestamp"] = int(timestamp.timestamp())
    headers: dict[str, Any] = dict(row.get("headers") or {})
    if rest := row.get("headers_json"):
        try:
            headers |= json.loads(rest)
        except (ValueError, TypeError) as error:
            raise RowError(f"headers_json is not one JSON object: {rest[:80]!r}") from error
    if headers:
        found["headers"] = headers
    return found


def check_columns(schema: StructType) -> None:
    """Raise RowError unless messages can be published from rows of this schema."""
    given = {field.name: field.dataType for field in schema.fields}
    if not isinstance(given.get("body"), BinaryType | StringType):
        raise RowError("the rows need a column body, binary or string")
    for name, kind in given.items():
        if name not in COLUMNS:
            raise RowError(f"a message has no column '{name}'; its columns are {', '.join(COLUMNS)}")
        wanted, found = COLUMNS[name].simpleString(), kind.simpleString()
        if name != "body" and found != wanted:
            raise RowError(f"the column {name} must be {wanted}, not {found}")
