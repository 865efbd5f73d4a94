"""Messages as rows and as columns of Arrow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_penstock import columns
from pyspark_penstock.columns import ARROW_SCHEMA, record_batches, row_of
from pyspark_penstock.intake import Delivery
from pyspark_penstock.schema import COLUMNS, SCHEMA, properties_of


def delivery(body: bytes = b"body", **properties: Any) -> Delivery:
    return Delivery(7, True, "x", "a.b", b"".join(pika.BasicProperties(**properties).encode()), body)


def row(**properties: Any) -> dict[str, Any]:
    found = dict(zip(COLUMNS, row_of(delivery(**properties)), strict=True))
    return found | {"headers": dict(found["headers"])}


def test_a_message_is_a_row_of_the_schema() -> None:
    found = row(content_type="text/plain", priority=3, timestamp=1_700_000_000, message_id="m", app_id="a")
    assert found == dict.fromkeys(COLUMNS) | {
        "body": b"body", "exchange": "x", "routing_key": "a.b", "redelivered": True, "headers": {}, "priority": 3,
        "content_type": "text/plain", "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "message_id": "m",
        "app_id": "a",
    }  # fmt: skip
    assert [field.name for field in SCHEMA.fields] == list(found)


def test_columns_are_of_the_types_that_spark_makes_of_the_schema() -> None:
    assert ARROW_SCHEMA.equals(to_arrow_schema(SCHEMA, timezone="UTC"))


def test_columns_say_what_rows_do() -> None:
    headers = {"a": "1", "nothing": None, "list": [1]}
    given = [delivery(), delivery(headers=headers, delivery_mode=2, timestamp=1_700_000_000), delivery(b"", type="t")]
    (batch,) = record_batches(given)
    assert batch.schema == ARROW_SCHEMA
    assert [tuple(each.values()) for each in batch.to_pylist()] == [row_of(each) for each in given]


def test_a_record_batch_has_so_many_rows_and_so_many_bytes_at_most(monkeypatch: Any) -> None:
    monkeypatch.setattr(columns, "BATCH_ROWS", 4)
    monkeypatch.setattr(columns, "BATCH_BYTES", 100)
    sizes = [1, 1, 1, 1, 1, 60, 60, 200, 40, 40]
    batches = list(record_batches([delivery(bytes(size)) for size in sizes]))
    assert [batch.num_rows for batch in batches] == [4, 2, 1, 1, 2]
    assert [len(each["body"]) for batch in batches for each in batch.to_pylist()] == sizes
    assert list(record_batches([])) == []


def test_headers_that_have_parts_are_in_the_json_and_the_others_in_the_map() -> None:
    headers = {
        "text": "t", "number": -5, "decimal": Decimal("1.25"), "yes": True, "nothing": None,
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "octets": b"\x00\xff", "list": [1, "two", None],
        "table": {"a": {"b": Decimal("0.1"), "at": datetime(2026, 1, 2, tzinfo=UTC)}},
    }  # fmt: skip
    found = row(headers=headers)
    assert found["headers"] == {
        "text": "t", "number": "-5", "decimal": "1.25", "yes": "true", "nothing": None,
        "time": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip
    assert json.loads(found["headers_json"]) == {
        "octets": "AP8=", "list": [1, "two", None], "table": {"a": {"b": "0.1", "at": "2026-01-02T00:00:00+00:00"}},
    }  # fmt: skip


def test_what_no_column_can_hold_spoils_no_row() -> None:
    found = row(timestamp=1_700_000_000_000, correlation_id=b"\xff\xfe", message_id=b"caf\xc3\xa9")
    assert found["timestamp"] is None and found["correlation_id"] == "\ufffd\ufffd" and found["message_id"] == "café"


def test_a_row_gives_the_properties_it_was_made_of() -> None:
    given = {"headers": {"a": "1", "t": [1, 2]}, "message_id": "m", "delivery_mode": 1, "timestamp": 1_700_000_000}
    assert properties_of(row(**given)) == given
    assert properties_of({"body": b""}) == {}
