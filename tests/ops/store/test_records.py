"""Messages read from bytes that may be damaged: as they were written, or ValueError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.store.records import HEADER, ROW, address_of, check_header, done_bits, rows
from penstock.batch.batch_cy import BatchBuilder
from shard.contents.segment_cy import Segment
from tests.ops.store.making import address, header

MESSAGES = [("", "q7", b"one", 0), ("x" * 255, "", b"", 1), ("café", "k", bytes(300), 3)]

names = st.text(max_size=60)
messages = st.lists(st.tuples(names, names, st.binary(max_size=50), st.integers(0, 3)), min_size=1, max_size=5)


def value_of(messages: list[tuple[str, str, bytes, int]]) -> bytes:
    """Return the contents of a segment with these messages: exchange, routing key, body and flags."""
    builder = BatchBuilder()
    for exchange, key, body, flags in messages:
        builder.add(address(exchange, key), header(body), body, flags)
    return b"".join(builder.finish().slices(0, len(messages)))


def all_of(count: int, value: bytes) -> list[tuple[bytes, bytes, bytes, int]]:
    """Read all messages and check their headers."""
    view, found = memoryview(value), []
    for row in rows(count, view):
        check_header(row, view)
        found.append((*address_of(row, view), bytes(view[row.body : row.end]), row.flags))
    return found


@given(messages)
def test_messages_are_read_as_they_were_written(messages: list[tuple[str, str, bytes, int]]) -> None:
    expected = [(exchange.encode(), key.encode(), body, flags) for exchange, key, body, flags in messages]
    assert all_of(len(messages), value_of(messages)) == expected


def test_a_slice_of_a_batch_begins_at_its_own_base() -> None:
    """The rows of a slice count from the start of the batch that it was cut from."""
    builder = BatchBuilder()
    for exchange, key, body, flags in MESSAGES:
        builder.add(address(exchange, key), header(body), body, flags)
    value = b"".join(builder.finish().slices(1, 2))
    assert [body for _, _, body, _ in all_of(2, value)] == [b"", bytes(300)]


@given(messages, st.data())
def test_whatever_is_damaged_only_value_errors_come(
    messages: list[tuple[str, str, bytes, int]], data: st.DataObject
) -> None:
    value = bytearray(value_of(messages))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    del value[data.draw(st.integers(0, len(value))) :]
    count = data.draw(st.integers(1, len(messages) + 1))
    try:
        found = all_of(count, bytes(value))
    except ValueError:
        return
    assert len(found) == count
    bodies = sum(len(exchange) + len(key) + 2 + len(body) for exchange, key, body, _ in found)
    assert bodies + count * ROW.size < len(value), "no byte is read twice, and each message has a header"


def spoiled(at: int, data: bytes) -> memoryview:
    value = value_of(MESSAGES)
    return memoryview(value[:at] + data + value[at + len(data) :])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (memoryview(bytes(47)), "47 bytes for 3 messages"),
        (memoryview(value_of(MESSAGES)[:-1]), r"message 2 ends at \d+, the contents at \d+"),
        (memoryview(value_of(MESSAGES) + b"x"), "1 bytes after the last message"),
        (spoiled(ROW.size, b"\x01"), r"message 1 begins at 1, the one before ends at \d+"),
        (spoiled(8, b"\xff"), r"message 1 begins at \d+, the one before ends at \d+"),
    ],
)
def test_rows_that_do_not_fit_are_named(value: memoryview, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        list(rows(len(MESSAGES), value))


@pytest.mark.parametrize("names", [b"", b"\0", b"\x01x", b"\x01x\x02y", b"\x01x\x01yz", b"\x09x\x01y"])
def test_an_address_is_two_short_strings(names: bytes) -> None:
    builder = BatchBuilder()
    builder.add(names, header(b""), b"", 0)
    value = memoryview(b"".join(builder.finish().slices(0, 1)))
    (row,) = rows(1, value)
    with pytest.raises(ValueError, match=r"^message 0: its address is no exchange and routing key$"):
        address_of(row, value)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"\0" * (HEADER.size - 1), "a header of 13 bytes"),
        (HEADER.pack(61, 0, 3, 0), "its header is of class 61 and 3 bytes"),
        (HEADER.pack(60, 0, 4, 0), "its header is of class 60 and 4 bytes"),
    ],
)
def test_a_header_is_that_of_the_body(head: bytes, text: str) -> None:
    builder = BatchBuilder()
    builder.add(address("", "q"), head, b"one", 0)
    value = memoryview(b"".join(builder.finish().slices(0, 1)))
    (row,) = rows(1, value)
    with pytest.raises(ValueError, match=f"^message 0: {text}$"):
        check_header(row, value)


def test_a_bit_is_set_for_each_message_that_is_done() -> None:
    builder = BatchBuilder()
    for _ in range(10):
        builder.add(address("", "q"), header(b""), b"", 0)
    segment = Segment(builder.finish(), 0, 10, 0)
    assert done_bits(segment) == 0
    segment.finish(1, 2)
    segment.finish(9, 1)
    assert done_bits(segment) == 0b10_0000_0110
