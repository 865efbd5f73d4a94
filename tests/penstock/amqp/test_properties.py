"""Content properties (AMQP 0-9-1, 4.2.6.1)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import PROPERTIES, decode_properties, decode_some, encode_properties
from penstock.amqp.values import Timestamp
from tests.penstock.amqp import corpus, strategies
from tests.penstock.amqp.outcomes import outcome
from tests.twins import load_plain

SCANNER = load_plain("penstock.amqp.scan_cy")

DOMAINS: dict[str, strategies.Strategy] = {
    "shortstr": strategies.shortstrs,
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1).map(Timestamp),
    "table": strategies.tables,
}
any_properties = st.fixed_dictionaries({}, optional={name: DOMAINS[domain] for name, domain in PROPERTIES})


some_names = st.sets(st.sampled_from([name for name, _ in PROPERTIES]), max_size=3)


@given(any_properties, some_names)
def test_what_was_written_is_read_back(properties: dict[str, Any], wanted: set[str]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    assert decode_some(encoded, wanted) == {name: value for name, value in properties.items() if name in wanted}


@pytest.mark.parametrize("at", range(14))
def test_each_property_has_its_bit(at: int) -> None:
    name, domain = PROPERTIES[at]
    value = {"shortstr": "a", "octet": 1, "timestamp": 1, "table": {}}[domain]
    encoded = encode_properties({name: value})
    assert int.from_bytes(encoded[:2], "big") == 1 << (15 - at)
    assert decode_properties(encoded) == {name: value}


def test_another_library_writes_and_reads_the_same() -> None:
    properties: dict[str, Any] = {
        name: {"octet": 2, "timestamp": 1700000000}.get(domain, "text") for name, domain in PROPERTIES
    }
    properties["headers"] = {"n": 1, "list": ["a"]}
    assert decode_properties(b"".join(pika.BasicProperties(**properties).encode())) == properties
    theirs = pika.BasicProperties().decode(encode_properties(properties))
    assert {name: getattr(theirs, name) for name in properties} == properties


def test_a_timestamp_stays_one_when_it_moves_into_a_table() -> None:
    assert type(decode_properties(encode_properties({"timestamp": 5}))["timestamp"]) is Timestamp


def test_some_properties_are_found_without_reading_on() -> None:
    encoded = encode_properties({"content_type": "a", "headers": {"n": 1}, "message_id": "7", "app_id": "abc"})
    assert decode_some(encoded[:-2], {"headers"}) == {"headers": {"n": 1}}
    assert decode_some(memoryview(encoded)[:-2], {"message_id", "timestamp"}) == {"message_id": "7"}


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"content-type": "a"}, TypeError),
        ({"content_type": 5}, TypeError),
        ({"content_type": "é" * 128}, ValueError),
        ({"headers": [1]}, TypeError),
        ({"headers": {"a": 2**63}}, ValueError),
        ({"priority": 256}, ValueError),
        ({"priority": "5"}, TypeError),
        ({"timestamp": -1}, ValueError),
    ],
)
def test_our_own_mistakes_are_no_protocol_errors(properties: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_properties(properties)


@pytest.mark.parametrize(("payload", "name", "says"), corpus.from_clients("header"))
def test_what_clients_write_is_understood(payload: bytes, name: None, says: str) -> None:
    """The payload begins with class, weight and body size, 12 bytes."""
    properties = decode_properties(memoryview(payload)[12:])
    assert repr(properties) == says
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize(("data", "code"), corpus.at_the_limits("properties"))
def test_bytes_at_the_limits(data: bytes, code: int | None) -> None:
    if code is None:
        assert encode_properties(decode_properties(data)) == data
        return
    with pytest.raises(FrameSyntaxError) as caught:
        decode_properties(data)
    assert caught.value.code == code


flags_and_more = st.builds(
    lambda flags, data: (flags << 2).to_bytes(2, "big") + data, st.integers(0, 2**14 - 1), st.binary(max_size=80)
)


@given(
    st.one_of(
        st.binary(max_size=80),
        flags_and_more,
        strategies.damaged(any_properties.map(encode_properties)),
        strategies.damaged(st.sampled_from(corpus.nbytes("properties"))),
    ),
    some_names,
)
def test_any_bytes_are_read_or_end_in_the_documented_error(data: bytes, wanted: set[str]) -> None:
    properties = outcome(decode_properties, data)
    if isinstance(properties, FrameSyntaxError):
        assert properties.code in (501, 502)
    else:
        assert repr(decode_properties(encode_properties(properties))) == repr(properties)
        some = {name: value for name, value in properties.items() if name in wanted}
        assert repr(decode_some(data, wanted)) == repr(some)


@given(
    st.one_of(
        flags_and_more,
        any_properties.map(encode_properties),
        strategies.damaged(any_properties.map(encode_properties)),
        strategies.damaged(st.sampled_from(corpus.nbytes("properties"))),
    )
)
def test_what_the_scanner_lets_in_can_be_read(data: bytes) -> None:
    """The scanner checks a message once; whoever decodes it later must not find it malformed."""
    header = bytes.fromhex("003c 0000 0000000000000000") + data
    let_in = len(data) >= 2 and SCANNER.content_flags(header, 0, len(header)) >= 0
    assert let_in == isinstance(outcome(decode_properties, data), dict)


@given(st.binary(max_size=80) | flags_and_more, some_names)
def test_some_properties_are_read_or_end_in_the_documented_error(data: bytes, wanted: set[str]) -> None:
    found = outcome(partial(decode_some, wanted=wanted), data)
    assert isinstance(found, dict) or found.code in (501, 502)
