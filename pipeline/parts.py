"""Parts of the history made from live files by Arrow, in Spark's Python workers, without Spark's own rows.

    live files ──split──▶ blobs: rows of an hour and a bucket ──shuffle──▶ merge ──▶ a Parquet file for each hour

A row's bucket depends on the columns that rows are sorted by, so rows that are equal in these meet in one part. Blobs
are columns in Arrow's compressed stream format. In the output of either step, `odd` is the path of a bad file, which
has to be read by code that can say what is wrong with it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.telemetry.schema import TABLES
from pipeline import layout
from pipeline.lines import OddError, tables
from pipeline.schema import arrow

ROWS_AT_ONCE: Final = 100_000
"""Rows of an hour are gathered up to this number before they are split: small blobs cost more."""
BLOBS: Final = "hour string, bucket int, blob binary, odd string"
PARTS: Final = "hour string, rows bigint, found bigint, part binary, odd string"
IN_TIME: Final = ("ts", "writer", "seq")
RISING: Final = ("ts", "seq")
"""Columns whose values differ in each row, but little from those of the row before."""

_BLOBS: Final = pa.schema(
    [("hour", pa.string()), ("bucket", pa.int32()), ("blob", pa.binary()), ("odd", pa.string())]
)  # fmt: skip
_PARTS: Final = pa.schema(
    [("hour", pa.string()), ("rows", pa.int64()), ("found", pa.int64()), ("part", pa.binary()), ("odd", pa.string())]
)


def parts(spark: SparkSession, table: str, keys: Sequence[str], paths: Sequence[str], buckets: int) -> DataFrame:
    """Return `hour` (as `Hour.path`), `part` (a Parquet file as bytes), its number of `rows`, and the number `found`
    before duplicates were removed; or the path of an odd file in `odd`. Rows are sorted by `keys` and time.

    A file that the node has removed in the meantime counts as empty.
    """
    files = spark.read.format("binaryFile").option("ignoreMissingFiles", True).load(list(paths))
    blobs = files.select("path", "content").mapInArrow(partial(split, table, tuple(keys), buckets), BLOBS)
    return blobs.repartitionById(buckets, "bucket").mapInArrow(partial(merge, table, tuple(keys)), PARTS)


def split(table: str, keys: Sequence[str], buckets: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split files into blobs."""
    schema = plain(table)
    gathered: list[pa.Table] = []
    hour = ""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            own = _hour(path.as_py())
            if own != hour or sum(each.num_rows for each in gathered) >= ROWS_AT_ONCE:
                yield from _blobs(gathered, hour, keys, buckets)
                gathered, hour = [], own
            try:
                gathered.extend(tables(content.as_py(), schema))
            except OddError:
                yield _batch(_BLOBS, hour=own, bucket=0, odd=path.as_py())
    yield from _blobs(gathered, hour, keys, buckets)


def merge(table: str, keys: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the blobs of each hour into a part."""
    hours: dict[str, list[Any]] = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            if row["odd"] is not None:
                yield _batch(_PARTS, hour=row["hour"], odd=row["odd"])
            else:
                hours[row["hour"]].append(row["blob"])
    for hour in sorted(hours):
        gathered = pa.concat_tables(pa.ipc.open_stream(blob).read_all() for blob in hours.pop(hour))
        rows = in_order(gathered, keys)
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows, sink, compression="zstd", compression_level=3, store_schema=False, write_page_index=True,
            use_dictionary=[name for name in rows.schema.names if name not in RISING],
            column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
        )  # fmt: skip
        yield _batch(
            _PARTS, hour=hour, rows=rows.num_rows, found=gathered.num_rows, part=sink.getvalue().to_pybytes()
        )  # fmt: skip


def in_order(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort rows by `keys` and time, nulls first, and remove rows that are equal in every column."""
    order, same = _sorted(rows, keys)
    if same:
        rows = rows.group_by(rows.schema.names, use_threads=False).aggregate([])
        order, _ = _sorted(rows, keys)
    return rows.take(order)


def plain(table: str) -> pa.Schema:
    """Return the table's columns by name and type, all nullable."""
    return pa.schema([(field.name, field.type) for field in arrow(TABLES[table])])


def _hour(path: str) -> str:
    hour = layout.hour_of(path)
    assert hour is not None, path
    return hour.path


def _blobs(gathered: list[pa.Table], hour: str, keys: Sequence[str], buckets: int) -> Iterator[pa.RecordBatch]:
    """Split the rows of an hour by bucket."""
    if not gathered:
        return
    rows = pa.concat_tables(gathered)
    bucket = np.zeros(rows.num_rows, np.int64)
    for name in keys if buckets > 1 else ():
        column = rows.column(name).combine_chunks().dictionary_encode()
        known = [zlib.crc32(repr(value).encode()) for value in column.dictionary.to_pylist()]
        bucket = bucket * 31 + np.asarray([*known, 0], np.int64)[pc.fill_null(column.indices, len(known)).to_numpy()]
    bucket %= buckets
    for number in np.unique(bucket).tolist():
        own = rows if buckets == 1 else rows.take(np.flatnonzero(bucket == number))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(own.combine_chunks())
        yield _batch(_BLOBS, hour=hour, bucket=number, blob=sink.getvalue().to_pybytes())


def _sorted(rows: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray[Any, Any], bool]:
    """Return the indices of the rows in order, and whether any two rows are equal in the sort columns."""
    codes = [_codes(rows.column(name)) for name in (*keys, *IN_TIME)]
    order = np.lexsort(codes[::-1])
    same = np.ones(max(len(order) - 1, 0), bool)
    for each in codes:
        same &= np.diff(each[order]) == 0
    return order, bool(same.any())


def _codes(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return integers in the order of the values, the least for null."""
    if column.type != pa.string():
        return np.asarray(pc.fill_null(column.cast(pa.int64()), np.iinfo(np.int64).min).combine_chunks())
    encoded = column.combine_chunks().dictionary_encode()
    places = np.empty(len(encoded.dictionary) + 1, np.int64)
    places[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    places[-1] = -1
    return np.asarray(places[pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()])


def _batch(schema: pa.Schema, **values: Any) -> pa.RecordBatch:
    """Return a batch of one row; unnamed columns are null."""
    return pa.RecordBatch.from_arrays(
        [pa.array([values.get(field.name)], field.type) for field in schema], schema=schema
    )
