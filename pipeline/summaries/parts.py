"""Parts of summaries made by Arrow in Spark's Python workers: Parquet files as bytes, which the driver writes.

A part of the history holds whole hours of its queues, as all rows of a queue and an hour are in one part: it is
summarized by itself. The summaries of a day are brought together by queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline import layout
from pipeline.errors import UnreadablePart
from pipeline.jobs import shard_load
from pipeline.jobs.queues import PLACE
from pipeline.parts import plain
from pipeline.schema import struct
from pipeline.summaries import queues
from pipeline.summaries.layout import QUEUE_HOURS, SHARD_SLOTS

ROWS_A_PART: Final = 200_000
"""Summaries of a day that are merged at once, about; their part has no more."""
ROWS_AT_ONCE: Final = 200_000
"""Rows without a part that are summarized at once, about."""
BYTES_AT_ONCE: Final = 64 * 2**20
"""Bytes of summaries in memory that are merged at once, about, beside those that were merged before."""
PARTS: Final = "span string, summaries bigint, rows bigint, lost bigint, part binary"

READ: Final = pa.schema([plain("depth").field(name) for name in queues.READ])
"""The columns of `depth` that a summary is made from."""

_PARTS: Final = pa.schema(
    [("span", pa.string()), *((name, pa.int64()) for name in ("summaries", "rows", "lost")), ("part", pa.binary())]
)
STRUCT: Final = {QUEUE_HOURS: from_arrow_schema(queues.SCHEMA), SHARD_SLOTS: struct(shard_load.TABLE)}
"""The columns of the summaries of hours for Spark."""


def hour_parts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Summarize parts of `depth`, each by itself. Returns `span` (as `Hour.path`), a `part`, and the numbers of
    `summaries` in it, of `rows` in these and of rows `lost` before those.
    """
    return spark.read.format("binaryFile").load(list(paths)).select("path", "content").mapInArrow(_hours, PARTS)


def day_parts(spark: SparkSession, paths: Sequence[str], summaries: int) -> DataFrame:
    """Merge summaries by queue. `paths`: parts with `summaries` rows in all. Returns the same columns as `hour_parts`,
    `span` empty.
    """
    read = spark.read.schema(STRUCT[QUEUE_HOURS]).parquet(*paths)
    return read.repartition(1 + summaries // ROWS_A_PART, *PLACE).mapInArrow(_day, PARTS)


def merged_parts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Merge the summaries of parts, as far as a task reads several: the columns of `STRUCT`, a row or more a queue."""
    read = spark.read.format("binaryFile").load(list(paths)).select("path", "content")
    return read.mapInArrow(_merged, STRUCT[QUEUE_HOURS])


def of_rows(rows: DataFrame) -> DataFrame:
    """Summarize rows of `depth` that no part of the history holds: the columns of `STRUCT`, a row or more a queue."""
    ordered = rows.select(*queues.READ).repartition(*PLACE).sortWithinPartitions(*PLACE)
    return ordered.mapInArrow(by_queue, STRUCT[QUEUE_HOURS])


def by_queue(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Summarize rows that are sorted by queue, whole queues of about `ROWS_AT_ONCE` rows at once."""
    gathered = READ.empty_table()
    for batch in batches:
        gathered = pa.concat_tables([gathered, pa.Table.from_batches([batch]).cast(READ)])
        if gathered.num_rows >= ROWS_AT_ONCE:
            whole = _rows_of_whole_queues(gathered)
            yield from queues.summarize(gathered.slice(0, whole)).to_batches()
            gathered = gathered.slice(whole)
    yield from queues.summarize(gathered).to_batches()


def _rows_of_whole_queues(rows: pa.Table) -> int:
    """Return the number of rows before the last queue."""
    last = rows.slice(rows.num_rows - 1).select(PLACE).to_pylist()[0]
    same = [pc.equal(pc.fill_null(rows.column(name), ""), value or "") for name, value in last.items()]
    return int(pc.index(pc.and_(pc.and_(same[0], same[1]), same[2]), True).as_py())


def _hours(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            hour = layout.hour_of(path.as_py())
            assert hour is not None, path
            rows = pq.ParquetFile(pa.BufferReader(content.as_buffer())).read(list(queues.READ))
            yield _part(hour.path, queues.summarize(_with_all_columns(rows)))


def _day(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    gathered = pa.Table.from_batches(batches, queues.SCHEMA)
    if gathered.num_rows:
        yield _part("", queues.merge(gathered))


def _merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge parts (paths and contents), about `BYTES_AT_ONCE` at once: those that follow each other have the same
    queues.
    """
    gathered, nbytes = [queues.SCHEMA.empty_table()], 0
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            try:
                gathered.append(pq.ParquetFile(pa.BufferReader(content.as_buffer())).read().cast(queues.SCHEMA))
            except (pa.ArrowException, OSError) as error:
                raise UnreadablePart(path.as_py(), error) from error
            nbytes += gathered[-1].nbytes
            if nbytes >= BYTES_AT_ONCE:
                gathered = [queues.merge(pa.concat_tables(gathered))]
                nbytes = 0
    yield from queues.merge(pa.concat_tables(gathered)).to_batches()


def _with_all_columns(rows: pa.Table) -> pa.Table:
    """Return the columns of a summary's input; those that an earlier release did not write are null."""
    columns = [rows.column(field.name).cast(field.type) if field.name in rows.schema.names
               else pa.nulls(rows.num_rows, field.type) for field in READ]  # fmt: skip
    return pa.table(columns, READ)


def _part(span: str, summaries: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    pq.write_table(summaries, sink, compression="zstd", store_schema=False, write_page_index=True)
    rows, lost = (pc.sum(summaries.column(name), min_count=0).as_py() for name in ("rows", "rows_lost"))
    values = (span, summaries.num_rows, rows, lost, sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(values, _PARTS, strict=True)], schema=_PARTS
    )
