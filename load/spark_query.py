"""The query that `load.spark_source` runs in a Spark of its own, to be killed or waited for:

    python -m load.spark_query read DIRECTORY MASTER NAME=VALUE …     a stream that never ends
    python -m load.spark_query drain DIRECTORY MASTER NAME=VALUE …    a stream that ends once it has read all messages
    python -m load.spark_query write DIRECTORY MASTER COUNT NAME=VALUE …

Names are options of `format("penstock")`, and `service`: the milliseconds that a service takes to answer, which a task
of a stream calls for each thousand messages. Streams write to files below the directory. `drain` prints at the end a
line of JSON about these files: `rows`; `numbers`, the distinct message numbers in the bodies; `least` and `greatest`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.cleaner.referenceTracking": "false",
}
TOO_SLOW = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start, which may be too little on a busy machine."""
STARTS = 10
CALL_ROWS = 1000
"""Messages per call of the service."""
NUMBER = "bigint(substring_index(string(body), ' ', 1))"
"""SQL for the number of a message: its body is the number, a blank, and padding."""


def main(command: str, directory: Path, master: str, *rest: str) -> None:
    """Run one query."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(f"penstock load: {command}")
    own = {"spark.local.dir": directory / "local", "spark.sql.warehouse.dir": directory / "warehouse"}
    for name, value in {**CONFIGURATION, **own}.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    if command == "write":
        write(spark, int(rest[0]), rest[1:])
        return
    read(spark, directory, rest, ends=command == "drain")
    print(json.dumps(counted(spark, directory)), flush=True)


def read(spark: SparkSession, directory: Path, options: Sequence[str], ends: bool) -> None:
    """Stream messages to files, resuming where the query ended last."""
    named = _named(options)
    service = int(named.pop("service", 0))
    stream = spark.readStream.format("penstock").options(**named).load()
    if service:
        stream = stream.mapInArrow(partial(serviced, service / 1000), stream.schema)
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    if ends:
        writer = writer.trigger(availableNow=True)
    for left in reversed(range(STARTS)):
        try:
            writer.start(str(directory / "out")).awaitTermination()
            return
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error) or not left:
                raise


def serviced(seconds: float, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass messages on after calls of a remote service, which take `seconds` each but no local processor time."""
    for batch in batches:
        for first in range(0, batch.num_rows, CALL_ROWS):
            time.sleep(seconds)
            yield batch.slice(first, CALL_ROWS)


def counted(spark: SparkSession, directory: Path) -> dict[str, int]:
    """Count the rows and numbers in the files."""
    numbers = spark.read.parquet(str(directory / "out")).selectExpr(f"{NUMBER} as n")
    (row,) = numbers.selectExpr(
        "count(*) as rows", "count(distinct n) as numbers", "min(n) as least", "max(n) as greatest"
    ).collect()
    return dict(row.asDict())


def write(spark: SparkSession, count: int, options: Sequence[str]) -> None:
    """Publish `count` messages from two tasks."""
    table = spark.range(0, count, 1, 2).selectExpr("concat(id, ' ', repeat('x', 248)) as body")
    table.write.format("penstock").options(**_named(options)).mode("append").save()


def _named(options: Sequence[str]) -> dict[str, str]:
    return dict(option.split("=", 1) for option in options)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
