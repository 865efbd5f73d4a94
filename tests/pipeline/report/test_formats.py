"""Values in words: with their units, and without secrets."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.schema import Column, Type
from pipeline.answers import TABLES
from pipeline.report.formats import cell, unbroken, unit, without_passwords


def column(kind: Type, of: str = "", meaning: str = "") -> Column:
    return Column("name", kind, of, meaning)


@pytest.mark.parametrize(
    ("of", "value", "expected"),
    [
        (column("bigint", "ms"), 0, "0 s"), (column("bigint", "ms"), 250, "250 ms"),
        (column("bigint", "ms"), 90_000, "90 s"),
        (column("bigint", "µs"), 1_500, "1.5 ms"), (column("double", "s"), 5400.0, "90 min"),
        (column("bigint", "bytes"), 1536, "1.5 KiB"), (column("double", "bytes a second"), 3.0, "3 B"),
        (column("bigint", "bytes"), 5 * 1024**4, "5.0 TiB"), (column("bigint", "messages"), 12_345, "12,345"),
        (column("bigint", "µs since 1970 (UTC)"), 1_795_172_400_000_000, "2026-11-20 11:00:00"),
        (column("boolean"), False, "no"), (column("double"), 0.12345, "0.123"), (column("double"), 1234.5, "1,234"),
        (column("string"), "<b>", "<b>"), (column("string"), None, "–"),
    ],
)  # fmt: skip
def test_a_cell_has_its_unit(of: Column, value: Any, expected: str) -> None:
    assert cell(of, value) == expected


def test_a_heading_says_the_unit_and_what_is_summed() -> None:
    assert unit(column("bigint", "ms", "time held, summed over channels")) == "summed over channels"
    assert unit(column("bigint", "messages")) == "messages"
    assert unit(column("bigint", "ms")) == ""
    summed = {(table.name, each.name) for table in TABLES for each in table.columns if "summed" in unit(each)}
    assert summed == {("held", "stopped_ms"), ("culprits", "stopped_ms")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3a://key:secret@bucket/x", "s3a://key:***@bucket/x"), ("amqp://u:p@ss@h/v", "amqp://u:***@h/v"),
        ("see amqp://u:p@h and https://a:b@c/d", "see amqp://u:***@h and https://a:***@c/d"),
        ("hdfs://host:9000/a@b", "hdfs://host:9000/a@b"), ("/var/lib", "/var/lib"), ("amqp://u@h:1", "amqp://u@h:1"),
    ],
)  # fmt: skip
def test_a_url_has_no_password(text: str, expected: str) -> None:
    assert without_passwords(text) == expected


@given(st.text(min_size=1, max_size=20), st.text(min_size=4, max_size=30))
def test_no_password_of_a_url_is_left(user: str, password: str) -> None:
    secret = quote(f"{password}-secret", safe="")
    assert secret not in without_passwords(f"files in s3a://{quote(user, safe='')}:{secret}@host/path")


def test_no_line_ends_before_a_unit() -> None:
    assert unbroken("held 3 h, 36 min, 9 messages") == "held 3\N{NO-BREAK SPACE}h, 36\N{NO-BREAK SPACE}min, 9 messages"
