"""Declared tables as Spark and pyarrow know them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from penstock.telemetry.schema import Table, Type

CORRUPT = "_corrupt_record"
"""Where Spark puts the text of a row that does not fit."""

SPARK: dict[Type, DataType] = {
    "bigint": LongType(),
    "int": IntegerType(),
    "smallint": ShortType(),
    "double": DoubleType(),
    "string": StringType(),
    "boolean": BooleanType(),
}
ARROW: dict[Type, pa.DataType] = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}


PARTITION = StructType([StructField("dt", StringType()), StructField("hour", IntegerType())])
"""What directories of hours are named by. Given, so that nothing is inferred: 2026-11-20 is no date, 07 no text."""


def struct(table: Table) -> StructType:
    """The table's columns for Spark. All may be null: what was read is not what was promised."""
    return StructType([StructField(column.name, SPARK[column.type]) for column in table.columns])


def with_corrupt(table: Table) -> StructType:
    """The same, and a column for the text of rows that do not fit."""
    return StructType([*struct(table).fields, StructField(CORRUPT, StringType())])


def partitioned(table: Table) -> StructType:
    """The table's columns, and those of the hour in which a row lies."""
    return StructType([*struct(table).fields, *PARTITION.fields])


def arrow(table: Table) -> pa.Schema:
    """The table's columns for pyarrow, with their units and meanings."""
    return pa.schema(
        [
            pa.field(
                column.name,
                ARROW[column.type],
                nullable=column.nullable,
                metadata={"unit": column.unit, "meaning": column.meaning},
            )
            for column in table.columns
        ]
    )


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """The declared columns of a frame, in order and of their types."""
    return frame.select([F.col(column.name).cast(SPARK[column.type]).alias(column.name) for column in table.columns])


def empty(spark: SparkSession, table: Table) -> DataFrame:
    """The declared columns and no rows. Made of none in Python it would start Python's workers to read them."""
    none = [F.lit(None).cast(SPARK[column.type]).alias(column.name) for column in table.columns]
    return spark.range(0).select(none)
