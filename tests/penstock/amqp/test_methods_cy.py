"""Methods to and from bytes (AMQP 0-9-1, 4.2.4 and 4.2.5)."""

from __future__ import annotations

import re
from typing import Any

import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.methods_cy import argument_types, decode, encode, frame
from penstock.amqp.spec import BY_NAME, METHODS, MethodSpec
from tests.penstock.amqp import corpus, strategies
from tests.penstock.amqp.outcomes import outcome
from tests.twins import load_compiled, load_plain

NAME = "penstock.amqp.methods_cy"
COMPILED, PLAIN = load_compiled(NAME), load_plain(NAME)

DOMAINS: dict[str, strategies.Strategy] = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "bit": st.booleans(),
    "shortstr": strategies.texts,
    "longstr": st.binary(max_size=40),
    "table": strategies.tables,
}


def fields_of(spec: MethodSpec) -> strategies.Strategy:
    return st.fixed_dictionaries({name: DOMAINS[domain] for name, domain in spec.fields if name not in spec.ignored})


any_method = st.sampled_from(list(BY_NAME.values())).flatmap(lambda spec: st.tuples(st.just(spec), fields_of(spec)))
any_payload = any_method.map(lambda method: encode(method[0].name, **method[1]))


@given(any_method)
def test_what_was_written_is_read_back(method: tuple[MethodSpec, dict[str, Any]]) -> None:
    spec, fields = method
    assert decode(encode(spec.name, **fields)) == (spec, fields)


@pytest.mark.parametrize("spec", METHODS.values(), ids=lambda spec: spec.amqp_name)
def test_fields_not_given_are_zero_empty_or_false(spec: MethodSpec) -> None:
    read, fields = decode(encode(spec.name))
    assert read is spec
    assert fields.keys() == {name for name, _ in spec.fields} - spec.ignored
    assert not any(fields.values())


@pytest.mark.parametrize("spec", METHODS.values(), ids=lambda spec: spec.amqp_name)
def test_another_library_writes_and_reads_the_same(spec: MethodSpec) -> None:
    samples = {
        "octet": 9,
        "short": 300,
        "long": 70000,
        "longlong": 2**40,
        "bit": True,
        "shortstr": "name",
        "longstr": b"text",
        "table": {"n": 1, "yes": True, "text": "é", "list": [1, {}]},
    }
    fields = {name: samples[domain] for name, domain in spec.fields if name not in spec.ignored}
    theirs = pika.spec.methods[spec.class_id << 16 | spec.method_id]
    renamed = {re.sub("^global_$", "global_qos", name): value for name, value in fields.items()}
    payload = (spec.class_id << 16 | spec.method_id).to_bytes(4, "big") + b"".join(theirs(**renamed).encode())
    assert decode(payload) == (spec, fields)

    if spec.name == "connection_update_secret":
        return  # pika only writes this method: its reader stores the field under another name
    read = theirs.__new__(theirs).decode(encode(spec.name, **fields), 4)
    assert {name: getattr(read, name) for name in renamed} == renamed


def test_bits_share_an_octet_lowest_first() -> None:
    """4.2.5.2."""
    payload = encode("queue_declare", queue="q", durable=True, nowait=True)
    assert payload == bytes.fromhex("0032000a 0000 0171 12 00000000")


def test_a_ticket_is_dropped_and_written_as_zero() -> None:
    spec, fields = decode(bytes.fromhex("003c0046 ffff 0171 01"))
    assert (spec.name, fields) == ("basic_get", {"queue": "q", "no_ack": True})
    assert encode("basic_get", **fields) == bytes.fromhex("003c0046 0000 0171 01")


def test_a_ticket_can_be_handed_out() -> None:
    assert encode("access_request_ok", ticket=1) == bytes.fromhex("001e000b 0001")


def test_a_name_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(FrameSyntaxError) as error:
        decode(bytes.fromhex("003c0046 0000 03ff2f80 01"))
    assert (error.value.code, error.value.class_id, error.value.method_id) == (501, 60, 70)


def test_long_strings_may_be_given_as_text() -> None:
    assert encode("connection_secure", challenge="é") == encode("connection_secure", challenge=b"\xc3\xa9")


def test_a_whole_frame() -> None:
    """4.2.3: type, channel, size, payload, frame end."""
    assert frame(258, "basic_ack", delivery_tag=7, multiple=True) == bytes.fromhex(
        "01 0102 0000000d 003c0050 0000000000000007 01 ce"
    )


def test_types_of_arguments_as_they_came() -> None:
    payload = bytes.fromhex("0032000a 0000 0171 00 00000014 0161 73 0005 0162 49 00000005 0163 53 00000001 64")
    assert decode(payload)[1]["arguments"] == {"a": 5, "b": 5, "c": "d"}
    assert argument_types(payload) == {"a": "short", "b": "signedint", "c": "longstr"}


def test_a_method_without_arguments_has_no_types() -> None:
    assert argument_types(encode("basic_get", queue="q")) == {}


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(buffer: Any) -> None:
    assert decode(buffer(encode("connection_secure", challenge=b"c")))[1] == {"challenge": b"c"}


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("queue.declare", {}, KeyError),
        ("queue_declare", {"queues": "q"}, TypeError),
        ("queue_declare", {"ticket": 1}, TypeError),
        ("queue_declare", {"queue": 5}, TypeError),
        ("queue_declare", {"queue": "é" * 128}, ValueError),
        ("queue_declare", {"arguments": [1]}, TypeError),
        ("queue_declare", {"arguments": {"a": 2**63}}, ValueError),
        ("connection_secure", {"challenge": 5}, TypeError),
        ("basic_qos", {"prefetch_count": 2**16}, ValueError),
        ("basic_qos", {"prefetch_count": -1}, ValueError),
        ("basic_qos", {"prefetch_count": "5"}, TypeError),
        ("basic_ack", {"delivery_tag": 2**64}, ValueError),
    ],
)
def test_our_own_mistakes_are_no_protocol_errors(name: str, fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        encode(name, **fields)


@pytest.mark.parametrize(("payload", "name", "says"), corpus.from_clients("method"))
def test_what_clients_write_is_understood(payload: bytes, name: str, says: str) -> None:
    spec, fields = decode(payload)
    assert (spec.name, repr(fields)) == (name, says)
    assert decode(encode(name, **fields)) == (spec, fields)


@pytest.mark.parametrize(("data", "code"), corpus.at_the_limits("methods"))
def test_bytes_at_the_limits(data: bytes, code: int | None) -> None:
    if code is None:
        decode(data)
        return
    with pytest.raises(FrameSyntaxError) as caught:
        decode(data)
    assert caught.value.code == code
    # Where the method is known, the error names it.
    ids = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    if ids in METHODS:
        assert (caught.value.class_id, caught.value.method_id) == ids


@given(any_payload, st.data())
def test_a_method_cut_short_ends_in_the_documented_error(payload: bytes, data: st.DataObject) -> None:
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(FrameSyntaxError) as caught:
        decode(cut)
    assert caught.value.code in (501, 502)


@given(any_payload, st.binary(min_size=1, max_size=4))
def test_a_method_followed_by_more_is_a_frame_error(payload: bytes, more: bytes) -> None:
    with pytest.raises(FrameSyntaxError) as caught:
        decode(payload + more)
    assert caught.value.code == 501


known_ids = st.sampled_from([class_id << 16 | method_id for class_id, method_id in METHODS])


any_bytes = st.one_of(
    st.binary(max_size=80),
    st.builds(lambda ids, data: ids.to_bytes(4, "big") + data, known_ids, st.binary(max_size=60)),
    strategies.damaged(any_payload),
    strategies.damaged(st.sampled_from(corpus.nbytes("methods"))),
)


@given(any_bytes)
def test_any_bytes_are_read_or_end_in_the_documented_error(data: bytes) -> None:
    method = outcome(decode, data)
    types = outcome(argument_types, data)
    if isinstance(method, FrameSyntaxError):
        assert method.code in (501, 502)
        assert isinstance(types, FrameSyntaxError) and types.code == method.code
    else:
        spec, fields = method
        assert repr(decode(encode(spec.name, **fields))) == repr((spec, fields))
        assert types.keys() == fields.get("arguments", {}).keys()


@given(any_bytes)
def test_the_compiled_reader_and_the_plain_one_agree(data: bytes) -> None:
    """The plain one checks every bound."""
    compiled, plain = outcome(COMPILED.decode, data), outcome(PLAIN.decode, data)
    assert repr(compiled) == repr(plain)


@given(any_method)
def test_the_compiled_writer_and_the_plain_one_agree(method: tuple[MethodSpec, dict[str, Any]]) -> None:
    spec, fields = method
    assert COMPILED.encode(spec.name, **fields) == PLAIN.encode(spec.name, **fields)
