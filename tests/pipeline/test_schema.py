"""Declared tables for Spark and for pyarrow: the same columns and types, whatever a file may lack."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType

from penstock.telemetry.schema import TABLES, TYPES, Table
from pipeline.answers import TABLES as ANSWERS
from pipeline.schema import ARROW, CORRUPT, PARTITION, SPARK, arrow, partitioned, struct, with_corrupt

ALL = pytest.mark.parametrize("table", [*TABLES.values(), *ANSWERS], ids=lambda table: table.name)


def test_every_type_has_its_counterparts_and_these_agree() -> None:
    assert SPARK.keys() == ARROW.keys() == set(TYPES)
    for type in TYPES:
        assert SPARK[type].simpleString() == type
        assert to_arrow_type(SPARK[type]) == ARROW[type]


@ALL
def test_columns_keep_their_order_and_may_be_null_where_they_are_read(table: Table) -> None:
    columns = struct(table)
    assert [(column.name, column.dataType.simpleString()) for column in columns] == [
        (column.name, column.type) for column in table.columns
    ]
    assert all(column.nullable for column in columns)


@ALL
def test_columns_of_the_reader_come_behind_those_of_the_table(table: Table) -> None:
    assert with_corrupt(table).fields[:-1] == struct(table).fields
    last = with_corrupt(table).fields[-1]
    assert (last.name, last.dataType) == (CORRUPT, StringType())
    assert partitioned(table).fields == [*struct(table).fields, *PARTITION.fields]
    assert not {CORRUPT, *PARTITION.names} & set(struct(table).names)


@ALL
def test_files_say_what_columns_mean(table: Table) -> None:
    made = arrow(table)
    assert made.names == struct(table).names
    for field, column in zip(made, table.columns, strict=True):
        assert (field.type, field.nullable) == (ARROW[column.type], column.nullable)
        assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}


def test_the_partition_is_a_date_as_text_and_an_hour() -> None:
    assert [(field.name, field.dataType.simpleString()) for field in PARTITION] == [("dt", "string"), ("hour", "int")]
    assert pa.types.is_int32(to_arrow_type(PARTITION["hour"].dataType))
