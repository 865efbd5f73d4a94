"""The declared tables as schemas of Spark and pyarrow."""

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
"""The column in which Spark puts the text of a row that does not fit."""

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
"""The columns in the names of hours' directories, declared so that Spark does not infer other types: a date, a text."""


def struct(table: Table) -> StructType:
    """Return the table's columns for Spark. All are nullable: rows read need not keep what the table promises."""
    return StructType([StructField(column.name, SPARK[column.type]) for column in table.columns])


def with_corrupt(table: Table) -> StructType:
    """Return the table's columns for Spark, and one for the text of rows that do not fit."""
    return StructType([*struct(table).fields, StructField(CORRUPT, StringType())])


def partitioned(table: Table) -> StructType:
    """Return the table's columns, and those of the hour that a row lies in."""
    return StructType([*struct(table).fields, *PARTITION.fields])


def arrow(table: Table) -> pa.Schema:
    """Return the table's columns for pyarrow, with units and meanings."""
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
    """Return the declared columns of a frame, in order and cast to their types."""
    return frame.select([F.col(column.name).cast(SPARK[column.type]).alias(column.name) for column in table.columns])


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return columns without rows. An empty frame built in Python would start Python workers to be read."""
    none = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    return spark.range(0).select(none)
