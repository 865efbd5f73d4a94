"""Keys and records of the store: packed ones are unpacked unchanged, and malformed ones are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.contents.segment_cy import Segment
from shard.store.sealed_cy import CHECKSUM, SEALED, TOTALS, seal
from shard.store.stored import (
    AGAIN,
    DAMAGED,
    DATABASES,
    DONE,
    EXPIRIES,
    KEY,
    MIXED,
    REJECTED,
    SPILL_DATABASES,
    held_key,
    pack_held,
    pack_segment,
    unpack_contents,
    unpack_held,
    unpack_held_key,
    unpack_index,
    unpack_segment,
)
from tests.shard.store.test_store import batch

NUMBERS = st.integers(0, (1 << 64) - 1)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def segment_made(draw: st.DrawFn) -> Segment:
    """A segment as the journal has it: each message settled or not, rejected or not, with an expiry or none."""
    count = draw(st.integers(1, 30))
    segment = Segment(None, 0, count, draw(st.integers(0, (1 << 63) - 1)))
    segment.body_bytes, segment.nbytes = draw(st.tuples(st.integers(0, 1 << 40), st.integers(16 * count, 1 << 40)))
    segment.expiry = draw(TIMES)
    segment.mixed, segment.again, segment.damaged = draw(st.tuples(*[st.booleans()] * 3))
    if draw(st.booleans()):
        segment.expiries = bytearray(struct.pack(f"<{count}q", *draw(st.lists(TIMES, min_size=count, max_size=count))))
    kept = draw(st.integers(0, count - 1))
    for offset in range(count):
        if offset != kept and draw(st.booleans()):
            segment.finish(offset, 1)
        if draw(st.booleans()):
            segment.reject(offset, 1)
    return segment


def facts(segment: Segment) -> list[Any]:
    return [
        segment.count, segment.sequence, segment.body_bytes, segment.nbytes, segment.expiry, segment.expiries,
        segment.kept, segment.undone(), segment.wanted(), segment.rejected(), segment.mixed, segment.again,
        segment.damaged,
    ]  # fmt: skip


@given(segment_made())
def test_a_segment_comes_back(segment: Segment) -> None:
    record = pack_segment(segment)
    found = unpack_segment(segment.sequence, record)
    assert facts(found) == facts(segment)
    assert found.stored and found.batch is None and pack_segment(found) == record


@given(segment_made(), st.integers(-40, 40).filter(bool))
def test_a_record_of_another_length_is_no_segment(segment: Segment, more: int) -> None:
    record = pack_segment(segment)
    changed = record + bytes(more) if more > 0 else record[:more]
    with pytest.raises(ValueError, match=r"^an index record of \d+ bytes"):
        unpack_segment(segment.sequence, changed)


def test_a_segment_without_messages_is_refused_unless_it_is_damaged() -> None:
    segment = Segment(None, 0, 8, 1)
    segment.done = bytearray(b"\xff")
    with pytest.raises(ValueError, match=r"^an index record with 0 of 8 messages$"):
        unpack_segment(1, pack_segment(segment))
    segment.damaged = True
    assert unpack_segment(1, pack_segment(segment)).kept == 0


def test_an_index_record_ends_in_the_checksum_of_its_contents() -> None:
    key, segment, checksum = KEY.pack(7, 5), Segment(None, 0, 3, 5), b"12345678"
    value = seal("index", key, pack_segment(segment) + checksum)
    found, of_contents = unpack_index(key, memoryview(value))
    assert (found.sequence, found.count, of_contents) == (5, 3, checksum)
    with pytest.raises(ValueError, match="a record of index is damaged"):
        unpack_index(KEY.pack(7, 6), value)
    assert len(checksum) == CHECKSUM


@given(NUMBERS, st.binary(max_size=40))
def test_the_key_of_a_lease_comes_back(queue_id: int, id: bytes) -> None:
    """The id may be UTF-8 or not."""
    name = id.decode("utf-8", "surrogateescape")
    assert unpack_held_key(held_key(queue_id, name)) == (queue_id, name)


@given(NUMBERS, NUMBERS, st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 1 << 20))))
def test_a_lease_comes_back(lasts: int, until: int, ranges: list[tuple[int, int]]) -> None:
    record = pack_held(lasts, until, [(low, low + count) for low, count in ranges])
    assert unpack_held(record) == (lasts, until, ranges)


@pytest.mark.parametrize(
    ("unpack", "text"),
    [
        (lambda: unpack_held(b""), "a lease's record of 0 bytes"),
        (lambda: unpack_held(bytes(24)), "a lease's record of 24 bytes"),
        (lambda: unpack_contents(3, bytes(47)), "47 bytes for 3 messages"),
    ],
)
def test_malformed_records_are_refused(unpack: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        unpack()


def test_contents_come_back_as_a_copy() -> None:
    written = batch(b"one", b"", b"three")
    value = bytearray(b"".join(written.slices(0, 3)))
    found = unpack_contents(3, memoryview(value))
    value[:] = bytes(len(value))
    assert [found.record(row) for row in range(3)] == [written.record(row) for row in range(3)]


def test_flags_and_databases_are_distinct() -> None:
    flags = (DONE, EXPIRIES, MIXED, AGAIN, REJECTED, DAMAGED)
    assert sum(flags) == (1 << len(flags)) - 1 and all(flag.bit_count() == 1 for flag in flags)
    assert {*SEALED, TOTALS, "contents", "facts"} == set(DATABASES) and len(set(DATABASES)) == len(DATABASES)
    assert set(SPILL_DATABASES) < set(DATABASES)
