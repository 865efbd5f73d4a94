"""Frames for ranges of messages (AMQP 0-9-1, 4.2.3 and 4.2.6), compiled and plain, read by an independent reader."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.encode_cy import DELIVER, GET_OK, RETURN
from tests import frames
from tests.frames import BODY, HEADER, METHOD
from tests.twins import both_ways, load_compiled, load_plain

NAME = "penstock.amqp.encode_cy"
Load = Callable[[str], ModuleType]
Frame = tuple[int, int, bytes]
# exchange, routing key, body
Message = tuple[bytes, bytes, bytes]

messages = st.lists(
    st.tuples(st.binary(max_size=10), st.binary(max_size=10), st.binary(max_size=100)), min_size=1, max_size=12
)


def header_of(body: bytes) -> bytes:
    return struct.pack(">HHQH", 60, 0, len(body), 0x0800) + b"\5"


def batch_of(load: Load, content: list[Message]) -> Any:
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for exchange, key, body in content:
        builder.add(frames.shortstr(exchange) + frames.shortstr(key), header_of(body), body, 0)
    return builder.finish()


def split(data: bytes) -> list[Frame]:
    """Return type, channel and payload of frames that follow each other without a gap."""
    found, at = [], 0
    while at < len(data):
        kind, channel, size = struct.unpack_from(">BHI", data, at)
        assert data[at + 7 + size] == frames.FRAME_END
        found.append((kind, channel, data[at + 7 : at + 7 + size]))
        at += size + 8
    return found


def take(output: Any) -> bytes:
    """Take and return the content of an output; check its size before and after."""
    size = output.size
    chunks = output.pop_chunks()
    data = b"".join(chunks)
    assert len(data) == size
    assert all(len(chunk) for chunk in chunks)
    assert (output.size, output.pop_chunks()) == (0, [])
    return data


def contents_of(found: list[Frame], channel: int, frame_max: int) -> list[tuple[bytes, bytes, bytes]]:
    """Return method payload, header payload and body of each message."""
    read: list[tuple[bytes, bytes, bytes]] = []
    for kind, on, payload in found:
        assert on == channel
        if kind == METHOD:
            read.append((payload, b"", b""))
        elif kind == HEADER:
            assert read[-1][1:] == (b"", b"")
            read[-1] = read[-1][0], payload, b""
        else:
            assert kind == BODY and payload
            assert not frame_max or len(payload) <= frame_max - 8
            read[-1] = *read[-1][:2], read[-1][2] + payload
    return read


def cut_as_late_as_can_be(found: list[Frame], frame_max: int) -> bool:
    """Return whether only the last body frame of each message is shorter than `frame_max` allows."""
    follows = [*found[1:], (METHOD, 0, b"")]
    return all(
        len(payload) == frame_max - 8
        for (kind, _, payload), (following, _, _) in zip(found, follows, strict=True)
        if kind == following == BODY
    )


@given(
    content=messages,
    channel=st.integers(1, 65535),
    tag=st.integers(1, 2**62),
    redelivered=st.booleans(),
    part=st.tuples(st.integers(0, 11), st.integers(0, 11)),
    frame_max=st.sampled_from([0, 9, 15, 64, 4096]),
)
def test_deliveries(
    content: list[Message], channel: int, tag: int, redelivered: bool, part: tuple[int, int], frame_max: int
) -> None:
    first = part[0] % len(content)
    count = part[1] % (len(content) - first) + 1
    written = []
    for load in load_compiled, load_plain:
        output = load(NAME).Output()
        prefix = DELIVER + frames.shortstr("consumer")
        batch = batch_of(load, content)
        output.contents(channel, prefix, tag, redelivered, b"", batch, first, count, frame_max)
        written.append(take(output))
    assert written[0] == written[1]
    found = split(written[0])
    assert not frame_max or cut_as_late_as_can_be(found, frame_max)
    read = contents_of(found, channel, frame_max)
    for i, ((exchange, key, body), (method, header, carried)) in enumerate(
        zip(content[first : first + count], read, strict=True)
    ):
        assert method == b"".join(
            [DELIVER, b"\x08consumer", struct.pack(">QB", tag + i, redelivered), frames.shortstr(exchange)]
        ) + frames.shortstr(key)
        assert (header, carried) == (header_of(body), body)


@both_ways
def test_an_answer_to_get(load: Load) -> None:
    output = load(NAME).Output()
    output.contents(3, GET_OK, 7, True, struct.pack(">I", 41), batch_of(load, [(b"x", b"k", b"body")]), 0, 1, 4096)
    (_, _, method), header, body = split(take(output))
    event = frames.parse_method(3, method)
    assert event.name == "basic.get-ok"
    assert (event.delivery_tag, event.redelivered, event.exchange, event.routing_key) == (7, True, "x", "k")
    assert event.messages == 41
    assert header == (HEADER, 3, header_of(b"body")) and body == (BODY, 3, b"body")


@both_ways
def test_a_returned_message(load: Load) -> None:
    output = load(NAME).Output()
    prefix = RETURN + struct.pack(">H", 312) + frames.shortstr("NO_ROUTE")
    output.contents(3, prefix, 0, False, b"", batch_of(load, [(b"x", b"k", b"")]), 0, 1, 4096)
    (_, _, method), header = split(take(output))
    event = frames.parse_method(3, method)
    assert event.name == "basic.return"
    assert (event.code, event.text, event.exchange, event.routing_key) == (312, "NO_ROUTE", "x", "k")
    assert header == (HEADER, 3, header_of(b""))


@pytest.mark.parametrize(("size", "frame_max", "lent"), [
    (16383, 0, []), (16384, 0, [16384]), (100_000, 0, [100_000]), (100_000, 4096, []),
    (100_000, 16392, [16384] * 6), (100_000, 65536, [65528, 34472]), (70_000, 65536, [65528]),
])  # fmt: skip
@both_ways
def test_large_bodies_are_lent_and_not_copied(load: Load, size: int, frame_max: int, lent: list[int]) -> None:
    """4.2.6.2: a piece of at least `BY_REFERENCE` bytes is a view of the batch; smaller ones lie between the frames."""
    body = bytes(i * 7 % 251 for i in range(size))
    batch = batch_of(load, [(b"", b"a", b"first"), (b"", b"b", body), (b"", b"c", b"last")])
    output = load(NAME).Output()
    output.contents(1, DELIVER + b"\0", 1, False, b"", batch, 0, 3, frame_max)
    bytes_said = output.size
    chunks = output.pop_chunks()
    views = [chunk for chunk in chunks if isinstance(chunk, memoryview)]
    assert [len(view) for view in views] == lent
    assert all(view.obj is batch.contents for view in views)
    data = b"".join(chunks)
    assert len(data) == bytes_said
    read = contents_of(split(data), 1, frame_max)
    assert [carried for _, _, carried in read] == [b"first", body, b"last"]


@given(
    first=st.integers(1, 2**62), count=st.integers(1, 20), multiple=st.booleans(), negative=st.booleans(),
    channel=st.integers(1, 65535),
)  # fmt: skip
@both_ways
def test_confirms(load: Load, first: int, count: int, multiple: bool, negative: bool, channel: int) -> None:
    output = load(NAME).Output()
    output.acks(channel, first, count, multiple, negative)
    events = [frames.parse_method(on, payload) for _, on, payload in split(take(output))]
    assert {(event.name, event.channel, event.multiple) for event in events} == {
        ("basic.nack" if negative else "basic.ack", channel, multiple)
    }
    tags = [event.delivery_tag for event in events]
    assert tags == ([first + count - 1] if multiple else list(range(first, first + count)))
    assert not any(event.arguments.get("requeue") for event in events)


@given(st.lists(st.integers(0, 40_000) | st.binary(max_size=3000), max_size=12))
def test_what_is_written_leaves_in_order(parts: list[int | bytes]) -> None:
    """A number is a message with a body of that size; a lent body keeps its place between copied parts."""
    written = []
    for load in load_compiled, load_plain:
        output, expected = load(NAME).Output(), b""
        for part in parts:
            if isinstance(part, bytes):
                output.write(part)
                expected += part
                continue
            body = bytes([part % 256]) * part
            output.contents(1, DELIVER + b"\0", 1, False, b"", batch_of(load, [(b"", b"", body)]), 0, 1, 0)
            method = DELIVER + b"\0" + struct.pack(">QB", 1, False) + b"\0\0"
            for kind, payload in (METHOD, method), (HEADER, header_of(body)), (BODY, body):
                expected += frames.frame(kind, 1, payload) if payload else b""
            assert output.size == len(expected)
        written.append(take(output))
        assert written[-1] == expected
    assert written[0] == written[1]


@both_ways
def test_an_output_is_used_again(load: Load) -> None:
    output = load(NAME).Output()
    for nbytes in b"first", b"", b"second":
        output.write(nbytes)
        assert take(output) == nbytes
    assert (output.pops, output.popped) == (6, len(b"firstsecond"))
