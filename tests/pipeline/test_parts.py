"""Parts made by Arrow: every row once, sorted, and rows of a queue together."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline import parts
from pipeline.compact import SORTED_BY
from pipeline.parts import in_order, merge, plain, split
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.tables import Row

PATH = "file:/telemetry/depth/v=1/dt=2026-11-20/hour={}/{}.jsonl.zst"


def files(*found: tuple[int, Sequence[Row]]) -> pa.RecordBatch:
    """Return files of hours with these rows, as Spark hands them over."""
    paths = [PATH.format(hour, number) for number, (hour, _) in enumerate(found)]
    contents = [zstandard.compress(live.lines(list(rows))) for _, rows in found]
    return pa.RecordBatch.from_pydict({"path": paths, "content": contents})


def merged(table: str, buckets: int, batch: pa.RecordBatch) -> list[Row]:
    """Return the rows made by all tasks of both steps."""
    keys = SORTED_BY[table]
    blobs = list(split(table, keys, buckets, [batch]))
    results: list[Row] = []
    for number in range(buckets):
        own = [blob for blob in blobs if blob.column("bucket")[0].as_py() == number]
        results += [row for made in merge(table, keys, own) for row in made.to_pylist()]
    return results


def rows_of(part: Row) -> list[Row]:
    found: list[Row] = pq.read_table(io.BytesIO(part["part"])).to_pylist()
    assert len(found) == part["rows"]
    return found


def key(table: str, row: Row) -> tuple[Any, ...]:
    """Return the sort key of a row: nulls come first."""
    values = [row[name] for name in (*SORTED_BY[table], "ts", "writer", "seq")]
    return tuple((value is not None, value) for value in values)


@pytest.mark.parametrize("table", ["depth", "flow", "shard", "connection"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_every_row_is_in_one_part_in_order(day: Day, table: str, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 200)
    rows = list(getattr(day, table))
    random.Random(1).shuffle(rows)
    results = merged(table, buckets, files((11, rows[::2]), (11, rows[1::2]), (12, rows[:50])))
    assert sum(part["found"] for part in results) == len(rows) + len(rows[:50])
    for hour, expected in ((11, rows), (12, rows[:50])):
        own = [rows_of(part) for part in results if part["hour"] == f"dt=2026-11-20/hour={hour}"]
        for part in own:
            assert part == sorted(part, key=lambda row: key(table, row))
        places = [{key(table, row)[: len(SORTED_BY[table])] for row in part} for part in own]
        assert sum(map(len, places)) == len(set.union(*places)), "a queue is in two parts"
        whole = sorted((row for part in own for row in part), key=lambda row: key(table, row))
        assert whole == sorted(expected, key=lambda row: key(table, row))


def test_rows_that_are_the_same_in_every_column_are_one(day: Day) -> None:
    rows = day.depth[:100]
    other = {**rows[7], "policy": "another"}
    (part,) = merged("depth", 1, files((11, rows), (11, [*rows[:20], other])))
    assert (part["found"], part["rows"]) == (121, 101)
    found = rows_of(part)
    assert all(row in found for row in [*rows, other])


def test_a_file_that_is_odd_is_named(day: Day) -> None:
    batch = files((11, day.depth[:10]), (11, [{**day.depth[0], "ready": "many"}]), (12, day.depth[:10]))
    results = merged("depth", 2, batch)
    assert [row["odd"] for row in results if row["odd"]] == [PATH.format(11, 1)]


def test_no_rows_are_no_part() -> None:
    assert merged("depth", 2, files((11, []))) == []
    assert in_order(plain("depth").empty_table(), SORTED_BY["depth"]).num_rows == 0
