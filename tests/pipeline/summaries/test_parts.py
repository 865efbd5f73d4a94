"""Summaries of rows without a part, some queues at once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UnreadablePart, file_of, is_read_failure
from pipeline.parts import plain
from pipeline.summaries import parts, queues
from tests.pipeline.day import made

DAY = made(seed=11)
ROWS = pa.Table.from_pylist(DAY.depth, plain("depth")).select(queues.READ)


def summaries(rows: pa.Table, size: int) -> pa.Table:
    """Summarize rows that come in batches of some size."""
    in_order = rows.sort_by([(name, "ascending") for name in queues.PLACE])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from in_order.combine_chunks().to_batches(max_chunksize=size)

    return pa.Table.from_batches(parts.by_queue(batches()), queues.SCHEMA)


@settings(max_examples=10)
@given(st.integers(1, 700), st.sampled_from([1, 50, 300, 10**6]))
def test_each_queue_is_summarized_once_and_whole(size: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_AT_ONCE", at_once)
        rows = ROWS.slice(0, 300 * at_once)  # a row at a time takes long
        assert summaries(rows, size).equals(queues.summarize(rows))


def test_rows_without_a_name_are_those_of_one_queue() -> None:
    """Their nodes have written nonsense: it is no reason to fail."""
    nameless = ROWS.slice(0, 50).set_column(2, parts.READ.field("queue"), pa.nulls(50, pa.string()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_AT_ONCE", 20)
        found = summaries(nameless, 10)
    assert found.column("queue").to_pylist() == [None]
    assert found.column("rows").to_pylist() == [50]


def test_no_rows_have_no_summaries() -> None:
    assert summaries(parts.READ.empty_table(), 10).num_rows == 0


@pytest.mark.parametrize("at_once", [1, 10**6])
def test_parts_of_the_same_queues_are_merged_as_one(at_once: int) -> None:
    middle = ROWS.column("ts").to_pylist()[ROWS.num_rows // 2] // 60_000_000 * 60_000_000
    early = pc.less(ROWS.column("ts"), middle)
    contents = [
        parts._part("", queues.summarize(ROWS.filter(which))).column("part")[0].as_py()
        for which in (early, pc.invert(early))
    ]
    batch = pa.RecordBatch.from_pydict({"path": ["early", "late"], "content": contents})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "BYTES_AT_ONCE", at_once)
        found = pa.Table.from_batches(parts._merged([batch]), queues.SCHEMA)
    assert found.equals(queues.summarize(ROWS))


def test_no_parts_have_no_queues() -> None:
    assert pa.Table.from_batches(parts._merged([]), queues.SCHEMA).num_rows == 0


def test_a_damaged_part_is_named() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"path": ["file:/t/part%201.parquet"], "content": [b"this is no Parquet at all"]}
    )
    with pytest.raises(UnreadablePart) as failed:
        list(parts._merged([batch]))
    assert is_read_failure(failed.value) and file_of(failed.value) == "/t/part 1.parquet"
