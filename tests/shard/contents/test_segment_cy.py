"""Segments of a queue: the messages that the store must keep, the memory they use, and the segments that may join."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.twins import both_ways, load_plain

Load = Callable[[str], ModuleType]
NAME = "shard.contents.segment_cy"
COUNT = 20
MESSAGE_WEIGHT = 64
SEGMENT_WEIGHT = 1100


def batch_of(load: Load, bodies: Iterable[bytes]) -> Any:
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for body in bodies:
        builder.add(b"\0\0", bytes(14), body, 0)
    return builder.finish()


def segment_of(load: Load, count: int = COUNT, sequence: int = 0) -> Any:
    return load(NAME).Segment(batch_of(load, [b"%d" % i for i in range(count)]), 0, count, sequence)


def numbers(runs: list[tuple[int, int]]) -> list[int]:
    return [number for start, count in runs for number in range(start, start + count)]


@both_ways
def test_a_segment_of_many_rows_is_read_back_in_part(load: Load) -> None:
    segment = segment_of(load)
    assert segment.undone() == [(0, 20)]
    assert not segment.finish(0, 3)
    assert not segment.finish(7, 10)
    assert segment.undone() == [(3, 4), (17, 3)]
    assert not segment.finish(3, 4)
    assert segment.finish(17, 3)


@both_ways
@given(steps=st.lists(st.tuples(st.sampled_from(("finish", "reject")), st.integers(0, COUNT - 1), st.integers(1, 9))))
def test_the_store_must_know_what_is_neither_settled_nor_buried(load: Load, steps: list[tuple[str, int, int]]) -> None:
    """Compare with sets of offsets. A rejected message is known until it is buried, which finishes it."""
    segment = segment_of(load)
    known, rejected = set(range(COUNT)), set()
    for kind, offset, count in steps:
        end = min(offset + count, COUNT)
        if not known.issuperset(range(offset, end)):
            continue  # each message is finished once, and none is rejected afterwards
        if kind == "reject":
            segment.reject(offset, end - offset)
            rejected |= set(range(offset, end))
        else:
            known -= set(range(offset, end))
            assert segment.finish(offset, end - offset) == (not known)
            if not known:
                assert segment.kept == 0
                return  # it is removed whole: its bits are not kept up to date
        assert numbers(segment.undone()) == sorted(known)
        assert numbers(segment.wanted()) == sorted(known - rejected)
        assert numbers(segment.rejected()) == sorted(known & rejected)
        assert segment.kept == len(known)


def test_runs_are_as_long_as_they_can_be() -> None:
    segment = segment_of(load_plain)
    segment.finish(8, 1)
    segment.reject(15, 2)
    assert (segment.undone(), segment.wanted()) == ([(0, 8), (9, 11)], [(0, 8), (9, 6), (17, 3)])
    assert segment.rejected() == [(15, 2)]


def test_origins_of_some_messages_are_those_of_their_pieces() -> None:
    module = load_plain(NAME)
    one, other = (module.Origin(module.Source(), 5, index) for index in range(2))
    segment = segment_of(load_plain, 10)
    assert segment.came_from(0, 10) == []
    segment.pieces = [(0, 3, one, 7), (5, 5, other, 20)]
    assert segment.came_from(0, 10) == segment.pieces
    assert segment.came_from(2, 4) == [(2, 1, one, 9), (5, 1, other, 20)]
    assert segment.came_from(3, 2) == []
    segment.origin, segment.row = one, 100
    assert segment.came_from(2, 4) == [(2, 4, one, 102)]


def test_only_equal_neighbours_that_are_whole_join() -> None:
    def pair() -> tuple[Any, Any]:
        return segment_of(load_plain, 3, 10), segment_of(load_plain, 2, 13)

    first, second = pair()
    assert first.joins(second) and not second.joins(first)
    assert not first.joins(segment_of(load_plain, 2, 14)), "a number is missing between them"
    for name, value in (
        ("live", 2), ("batch", None), ("stored", True), ("spilled", True), ("expiries", bytearray(24)),
        ("expiry", 5), ("again", True),
    ):  # fmt: skip
        first, second = pair()
        setattr(first, name, value)
        assert not first.joins(second), name
    for name, value in (("stored", True), ("expiries", bytearray(16)), ("expiry", 5), ("again", True)):
        first, second = pair()
        setattr(second, name, value)
        assert not first.joins(second), name


@both_ways
def test_a_segment_weighs_its_live_messages_and_its_record(load: Load) -> None:
    segment = segment_of(load, 3)
    assert segment.weight() == SEGMENT_WEIGHT, "it holds nothing yet"
    segment.live_whole = 500
    assert segment.weight() == 500 + SEGMENT_WEIGHT


@both_ways
def test_the_bytes_of_a_stored_segment_are_those_of_its_messages(load: Load) -> None:
    """After a start, only the stored size of rows and contents is known."""
    segment = segment_of(load, 5)
    rows, contents = segment.batch.slices(0, 5)
    segment.nbytes = len(rows) + len(contents)
    segment.stored_whole()
    assert segment.whole == segment.batch.whole(0, 5) == 5 * (2 + 14 + 1 + MESSAGE_WEIGHT)


@both_ways
def test_a_range_counts_the_bytes_of_its_own_rows(load: Load) -> None:
    batch = batch_of(load, [b"a", b"bb", b"ccc", b"dddd"])
    item = load(NAME).Range(batch, 1, 2, 77, True, 5)
    assert item.whole == 2 * (2 + 14 + MESSAGE_WEIGHT) + 5
    assert (item.count, item.sequence, item.redelivered, item.body_bytes, item.segment) == (2, 77, True, 5, None)
