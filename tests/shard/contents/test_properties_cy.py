"""Expiration, priority and delay as a queue reads them from a row of a batch, compiled and plain."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.properties import PROPERTIES, encode_properties
from penstock.amqp.values import Timestamp
from router.model.delaying import delay_of
from tests.penstock.amqp import strategies
from tests.twins import both_ways, load_compiled, load_plain

Load = Callable[[str], ModuleType]
NAME = "shard.contents.properties_cy"
TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000
HEAD = b"\0\x3c\0\0" + bytes(8)

DOMAINS: dict[str, strategies.Strategy] = {
    "shortstr": strategies.shortstrs,
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1).map(Timestamp),
    "table": strategies.tables,
}
OTHERS = {name: DOMAINS[domain] for name, domain in PROPERTIES if name not in ("expiration", "priority")}


def batch_of(load: Load, *headers: bytes) -> Any:
    """Return a batch of these content headers; the last has no body, so reading past its header leaves the batch."""
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for number, header in enumerate(headers, 1):
        builder.add(b"\0\1q", header, b"99999" if number < len(headers) else b"", 0)
    return builder.finish()


def read(load: Load, header: bytes, row: int = 1) -> tuple[int, int]:
    """Return the expiration and priority of a message with this content header, behind `row` others."""
    module = load(NAME)
    other = HEAD + encode_properties({"expiration": "7", "priority": 7})
    batch = batch_of(load, *[other] * row, header)
    return module.expiration_ms(batch, row), module.priority_of(batch, row)


@both_ways
@given(
    others=st.fixed_dictionaries({}, optional=OTHERS),
    expiration=st.none() | st.integers(0, TEN_YEARS_MS),
    priority=st.none() | st.integers(0, 255),
    row=st.integers(0, 2),
)
def test_they_are_found_among_any_other_properties(
    load: Load, others: dict[str, Any], expiration: int | None, priority: int | None, row: int
) -> None:
    properties = dict(others)
    if expiration is not None:
        properties["expiration"] = str(expiration)
    if priority is not None:
        properties["priority"] = priority
    expected = (-1 if expiration is None else expiration, priority or 0)
    assert read(load, HEAD + encode_properties(properties), row) == expected


@both_ways
@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("007", 7),
        (str(TEN_YEARS_MS - 1), TEN_YEARS_MS - 1),
        (str(TEN_YEARS_MS + 1), TEN_YEARS_MS),
        ("9" * 255, TEN_YEARS_MS),
        ("", -1),
        ("-1", -1),
        ("1.5", -1),
        (" 1", -1),
        ("1:", -1),
        ("1/", -1),
    ],
)
def test_an_expiration_is_a_number_of_at_most_ten_years_or_absent(load: Load, text: str, milliseconds: int) -> None:
    assert read(load, HEAD + encode_properties({"expiration": text}))[0] == milliseconds


@both_ways
@given(
    headers=strategies.tables,
    delay=st.integers(-(2**63), 2**63 - 1)
    | st.integers(-300, 70_000)
    | st.text(max_size=4)
    | st.floats()
    | st.booleans(),
    others=st.fixed_dictionaries({}, optional={name: OTHERS[name] for name in OTHERS if name != "headers"}),
    after=st.booleans(),
)
def test_a_delay_is_read_as_from_decoded_headers(
    load: Load, headers: dict[str, Any], delay: Any, others: dict[str, Any], after: bool
) -> None:
    mixed = {**headers, "x-delay": delay} if after else {"x-delay": delay, **headers}
    batch = batch_of(load, HEAD + encode_properties({**others, "headers": mixed}))
    assert load(NAME).delay_ms(batch, 0) == delay_of(mixed)
    batch = batch_of(load, HEAD + encode_properties({**others, "headers": headers}))
    assert load(NAME).delay_ms(batch, 0) == delay_of(headers)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("value", [0, 1, 100, -1])
def test_a_delay_of_any_width(size: int, value: int) -> None:
    for code in {1: "bB", 2: "su", 4: "Ii", 8: "lL"}[size]:
        signed = code in "bsIlL"
        if value < 0 and not signed:
            continue
        table = b"\x07x-delay" + code.encode() + value.to_bytes(size, "big", signed=signed)
        header = HEAD + b"\x20\0" + len(table).to_bytes(4, "big") + table
        assert load_compiled(NAME).delay_ms(batch_of(load_compiled, header), 0) == max(value, 0)


@given(strategies.damaged(st.fixed_dictionaries({}, optional=dict(OTHERS, priority=st.just(3))).map(encode_properties)))
def test_a_damaged_header_is_read_to_its_end_at_most(properties: bytes) -> None:
    """The plain twin raises an error if it reads beyond the batch."""
    header = HEAD + properties
    assert read(load_compiled, header) == read(load_plain, header)


@given(strategies.damaged(strategies.tables.map(lambda table: encode_properties({"headers": {**table, "x-delay": 5}}))))
def test_a_delay_among_damaged_headers_is_read_alike(properties: bytes) -> None:
    header = HEAD + properties
    found = [load(NAME).delay_ms(batch_of(load, header), 0) for load in (load_compiled, load_plain)]
    assert found[0] == found[1]


@both_ways
def test_a_header_that_ends_too_early_has_no_property(load: Load) -> None:
    """More bytes of the batch follow the header, and none of them is read as a property."""
    module, whole = load(NAME), HEAD + encode_properties({"content_type": "t", "priority": 5, "expiration": "12345"})
    for size in range(len(whole)):
        batch = batch_of(load, whole[:size], whole)
        assert module.expiration_ms(batch, 0) == -1
        assert module.priority_of(batch, 0) == (5 if size >= len(HEAD) + 5 else 0)
