"""Records in a stream of bytes that is cut anywhere, compiled and not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.twins import both_ways

SIZES = st.lists(st.integers(0, 400), max_size=8)


def record(size: int) -> bytes:
    """Return a record of so many bytes after its header."""
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


@both_ways
@given(SIZES, st.integers(1, 500), st.integers(1, 4))
def test_each_record_ends_once_however_the_stream_is_cut(load: Any, sizes: list[int], cut: int, most: int) -> None:
    records = load("acceptor.tls.records_cy").Records()
    stream = b"".join(map(record, sizes))
    ends, complete = [sum(map(len, map(record, sizes[: last + 1]))) for last in range(len(sizes))], 0
    for begin in range(0, len(stream), cut):
        end = min(begin + cut, len(stream))
        while begin < end:
            begin = records.take(stream, begin, end, most)
            complete += records.complete
            assert complete == sum(each <= begin for each in ends)
            assert begin == end or (records.complete == most and begin in ends)


@both_ways
def test_nothing_ends_no_record(load: Any) -> None:
    records = load("acceptor.tls.records_cy").Records()
    assert (records.take(memoryview(b""), 0, 0, 1), records.complete) == (0, 0)
    assert (records.take(bytearray(record(3))[:-1], 0, 7, 1), records.complete) == (7, 0)
