"""Rows of tests as frames, frames as rows, and their comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.telemetry.schema import Table
from pipeline.schema import struct

Row = dict[str, Any]


def frame(spark: SparkSession, table: Table, rows: Iterable[Row]) -> DataFrame:
    """Return a frame with the columns of the table, of more than one partition; columns that a row lacks are null."""
    names = [column.name for column in table.columns]
    made = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], struct(table))
    return made.repartition(3)


def rows_of(found: DataFrame) -> list[Row]:
    """Return the rows of a frame."""
    return [row.asDict(recursive=True) for row in found.collect()]


def assert_same(found: DataFrame, table: Table, expected: Sequence[Row], *, in_order: bool = True) -> None:
    """Raise AssertionError unless the frame has the table's columns and types, and the expected rows, except for the
    last digits of fractions.
    """
    assert found.dtypes == [(column.name, column.type) for column in table.columns]
    rows = rows_of(found)
    if not in_order:
        names = [column.name for column in table.columns if column.type != "double"]
        rows, expected = (
            sorted(each, key=lambda row: repr([row[name] for name in names])) for each in (rows, expected)
        )
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        wrong = {name: (value, other[name]) for name, value in row.items() if not same(value, other[name])}
        assert not wrong, f"found, expected: {wrong} in {row}"


def same(value: Any, other: Any) -> bool:
    """Return whether two values are equal, floats except for their last digits."""
    if isinstance(value, float) and isinstance(other, float | int):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(value == other)


def percentile(values: Iterable[float], share: float) -> float:
    """Return a percentile between the two nearest values, as in SQL."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)
