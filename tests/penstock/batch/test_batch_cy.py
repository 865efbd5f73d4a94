"""The batch, compiled and plain, against a list of messages."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import both_ways, load_compiled, load_plain

NAME = "penstock.batch.batch_cy"
Load = Callable[[str], ModuleType]


class Message(NamedTuple):
    address: bytes
    header: bytes
    body: bytes
    flags: int


messages = st.lists(
    st.builds(
        Message, st.binary(max_size=12), st.binary(max_size=20), st.binary(max_size=40), st.integers(0, 2**16 - 1)
    ),
    max_size=40,
)


def build(module: ModuleType, content: list[Message]) -> Any:
    builder = module.BatchBuilder()
    for message in content:
        builder.add(*message)
    assert len(builder) == len(content)
    assert builder.body_bytes == sum(len(message.body) for message in content)
    return builder.finish()


def read(batch: Any) -> list[Message]:
    return [Message(*(*batch.record(i), batch.flags(i))) for i in range(len(batch))]


def part(count: int, at: int, size: int) -> tuple[int, int]:
    """Return a row and a count that lie within a batch."""
    first = at % (count + 1)
    return first, size % (count - first + 1)


@given(content=messages, at=st.integers(0, 50), size=st.integers(0, 50), limit=st.integers(-5, 500))
@both_ways
def test_a_batch_is_a_list_of_messages(load: Load, content: list[Message], at: int, size: int, limit: int) -> None:
    batch = build(load(NAME), content)
    assert len(batch) == batch.count == len(content)
    assert read(batch) == content
    first, count = part(len(content), at, size)
    within = content[first : first + count]
    assert batch.body_bytes(first, count) == sum(len(message.body) for message in within)
    flags = 0
    for message in within:
        flags |= message.flags
    assert batch.all_flags(first, count) == flags
    fitting = batch.fit(first, count, limit)
    assert 0 <= fitting <= count
    assert batch.body_bytes(first, fitting) <= max(limit, 0)
    assert fitting == count or batch.body_bytes(first, fitting + 1) > limit


@given(content=messages.filter(bool), cuts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=4))
@both_ways
def test_a_slice_of_a_batch_is_a_batch(load: Load, content: list[Message], cuts: list[tuple[int, int]]) -> None:
    """A batch can be sliced repeatedly, and rebuilt from the bytes that pass between two processes."""
    module = load(NAME)
    batch = build(module, content)
    for at, size in cuts:
        first, count = part(len(content), at, size)
        if count == 0:
            continue
        content = content[first : first + count]
        entries, contents = batch.slices(first, count)
        assert batch.nbytes(first, count) == len(entries) + len(contents)
        assert len(entries) == 16 * count and len(contents) == sum(len(b"".join(m[:3])) for m in content)
        batch = module.Batch(bytes(entries), bytes(contents))
        assert read(batch) == content
        assert batch.slices(0, count) == (entries, contents)


@given(
    sources=st.lists(messages, min_size=1, max_size=4),
    parts=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=8
    ),
)
@both_ways
def test_a_builder_takes_parts_of_batches(
    load: Load, sources: list[list[Message]], parts: list[tuple[int, int, int, bool]]
) -> None:
    module = load(NAME)
    batches = [build(module, content) for content in sources]
    builder, expected = module.BatchBuilder(), []
    for which, at, size, sliced in parts:
        content, batch = sources[which % len(sources)], batches[which % len(sources)]
        first, count = part(len(content), at, size)
        within = content[first : first + count]
        if sliced and count:
            builder.extend(module.Batch(*batch.slices(first, count)), 0, count)
        else:
            builder.extend(batch, first, count)
        expected += within
        assert len(builder) == len(expected)
    assert builder.body_bytes == sum(len(message.body) for message in expected)
    assert read(builder.finish()) == expected


@given(messages)
def test_compiled_and_plain_write_the_same(content: list[Message]) -> None:
    compiled, plain = (build(load(NAME), content) for load in (load_compiled, load_plain))
    assert (compiled.entries, compiled.contents) == (plain.entries, plain.contents)


@both_ways
def test_buffers_grow_and_are_cut_at_the_end(load: Load) -> None:
    content = [Message(b"a" * (i % 7), b"h", bytes([i % 256]) * (i * 37 % 3000), i % 32) for i in range(500)]
    batch = build(load(NAME), content)
    assert read(batch) == content
    assert len(batch.entries) == 16 * 500
    assert len(batch.contents) == sum(len(b"".join(message[:3])) for message in content)


@both_ways
def test_an_empty_batch(load: Load) -> None:
    module = load(NAME)
    for batch in module.BatchBuilder().finish(), module.Batch(b"", b""):
        assert len(batch) == batch.body_bytes(0, 0) == batch.all_flags(0, 0) == batch.fit(0, 0, 9) == 0


@both_ways
def test_rows_outside_are_an_error_of_ours(load: Load) -> None:
    batch = build(load(NAME), [Message(b"a", b"h", b"b", 1)])
    for i in -1, 1, 2**40:
        with pytest.raises(IndexError):
            batch.record(i)
        with pytest.raises(IndexError):
            batch.flags(i)


@both_ways
def test_buffers_that_cannot_belong_together_are_refused(load: Load) -> None:
    module = load(NAME)
    whole = build(module, [Message(b"ab", b"header", b"body", 1)] * 3)
    entries, contents = bytes(whole.entries), bytes(whole.contents)
    for other in entries[:-1], entries + b"\0":
        with pytest.raises(ValueError, match="rows"):
            module.Batch(other, contents)
    for other in contents[:-1], b"":
        with pytest.raises(ValueError, match="contents"):
            module.Batch(entries, other)
    with pytest.raises(ValueError, match="contents"):
        module.Batch(entries[:-4] + b"\xff\xff\xff\xff", contents)
    assert read(module.Batch(entries[16:], contents[12:])) == read(whole)[1:]


@both_ways
def test_a_batch_over_views_keeps_them(load: Load) -> None:
    module = load(NAME)
    contents = bytearray(b"ab")
    batch = module.Batch(memoryview((0).to_bytes(8, "little") + b"\1\0\0\0\1\0\0\0"), memoryview(contents))
    assert batch.record(0) == (b"", b"a", b"b")
    with pytest.raises(BufferError):
        contents.clear()
