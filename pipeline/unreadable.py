"""The search for files that cannot be read: truncated, damaged, of another format, or gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline.errors import is_read_failure


def separate(paths: Sequence[str], attempt: Callable[[Sequence[str]], None]) -> list[str]:
    """Return the files that cannot be read. `attempt` reads files, and fails if one of them is unreadable; it is called
    for halves, as Spark names only one such file. Failures of other kinds are raised.
    """
    if not paths:
        return []
    try:
        attempt(paths)
    except Exception as error:
        if not is_read_failure(error):
            raise
        if len(paths) == 1:
            return list(paths)
        middle = len(paths) // 2
        return [*separate(paths[:middle], attempt), *separate(paths[middle:], attempt)]
    return []


def try_live(spark: SparkSession, _: StructType, paths: Sequence[str]) -> None:
    """Read live files to their ends. Those that the node has removed count as empty."""
    spark.read.option("ignoreMissingFiles", True).text(list(paths)).agg(F.max(F.length("value"))).first()


def try_parts(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> None:
    """Read every column of parts of the history."""
    spark.read.schema(schema).parquet(*paths).agg(F.max(F.hash("*"))).first()
