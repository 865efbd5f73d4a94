"""A delayed message as it is published again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from penstock.amqp.properties import PROPERTIES_AT, decode_properties, encode_properties
from shard.queue.due import due_letter
from tests.penstock.amqp import strategies

HEAD = b"\0\x3c\0\0" + bytes(8)


def published(**properties: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Return the properties with which a message leaves, and its keys."""
    letter = due_letter((b"\1x\1k", HEAD + encode_properties(properties), b"body"))
    address, header, body = letter.record
    assert (address, header[:PROPERTIES_AT], body) == (b"\1x\1k", HEAD, b"body") and letter.deaths == []
    return decode_properties(header[PROPERTIES_AT:]), letter.keys


@pytest.mark.parametrize(("delay", "after"), [(5, -5), (0, 0), (-5, 0), ("7", -7), (2.5, -2), ("x", 0)])
def test_its_delay_is_negated(delay: object, after: int) -> None:
    properties, keys = published(headers={"x-delay": delay, "a": 1}, expiration="60", priority=3)
    assert properties == {"headers": {"x-delay": after, "a": 1}, "expiration": "60", "priority": 3}
    assert keys == [b"k"]


def test_without_headers_it_says_so_all_the_same() -> None:
    assert published(app_id="a") == ({"headers": {"x-delay": 0}, "app_id": "a"}, [b"k"])


def test_it_goes_by_all_its_keys_and_tells_nobody_of_the_hidden_ones() -> None:
    properties, keys = published(headers={"x-delay": 1, "CC": ["c", "d"], "BCC": ["hidden"]})
    assert properties == {"headers": {"x-delay": -1, "CC": ["c", "d"]}} and keys == [b"k", b"c", b"d", b"hidden"]


@given(strategies.tables)
def test_other_headers_stay_as_they_are(headers: dict[str, Any]) -> None:
    kept = {name: value for name, value in headers.items() if name not in ("x-delay", "CC", "BCC")}
    properties, _ = published(headers={**kept, "x-delay": 9})
    assert properties == {"headers": {**kept, "x-delay": -9}}
