"""An example: two answers for a day as Delta tables, for all who query a lakehouse.

    python -m penstock.programs pipeline.examples.delta --telemetry DIR --tables s3a://lake/penstock --day 2026-11-20 \\
        --packages io.delta:delta-spark_4.2_2.13:4.4.1

Each table has a partition for each day. A second run for a day replaces its partition, so a run may be repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.jobs import episodes, rebalance_inputs
from pipeline.jobs.queues import queues
from pipeline.layout import Hour
from pipeline.read import Telemetry
from pipeline.recovery import on_readable_files
from pipeline.runner import Runner
from pipeline.session import open_session

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
DELTA: Final = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main() -> None:
    """Write the tables and exit: 1, and one line, if that is not possible."""
    parser = argparse.ArgumentParser("delta", description="Write episodes and rebalance inputs as Delta tables.")
    parser.add_argument("--telemetry", required=True, metavar="DIR", help="where nodes write telemetry")
    parser.add_argument("--tables", required=True, metavar="DIR", help="where the tables are")
    parser.add_argument("--day", required=True, type=date.fromisoformat, help="such as 2026-11-20 (UTC)")
    parser.add_argument("--packages", default="", help="Maven coordinates of Delta, as for spark-submit")
    parser.add_argument("--jars", default="", help="or its jars, with commas between them")
    given = parser.parse_args()
    jars = {"spark.jars.packages": given.packages, "spark.jars": given.jars}
    try:
        spark = open_session(
            "penstock delta", configuration=DELTA | {key: value for key, value in jars.items() if value}
        )
        require_delta(spark)
        with Runner(spark) as runner:
            telemetry = Telemetry(spark, given.telemetry)
            job = partial(runner.run, "tables", lambda: write(answers(telemetry, given.day), given.day, given.tables))
            on_readable_files(telemetry, runner, job, print)
    except PipelineError as error:
        sys.exit(f"delta: {error}")


def require_delta(spark: SparkSession) -> None:
    """Raise PipelineError unless the session has the jar of Delta."""
    java: Any = spark._jvm
    if not java.org.apache.spark.util.Utils.classIsLoadable(EXTENSION):
        minor = spark.version.rpartition(".")[0]
        way = f"add --packages io.delta:delta-spark_{minor}_2.13:VERSION, or --jars FILE"
        raise PipelineError(f"Spark {spark.version} has no jar of Delta: {way}")


def answers(telemetry: Telemetry, day: date) -> dict[str, DataFrame]:
    """Return the answers for a day (UTC) by name, not computed yet."""
    since, until = (Hour(str(each), 0).begins for each in (day, day + timedelta(days=1)))
    depth, flow = (telemetry.rows(name, since, until) for name in ("depth", "flow"))
    return {
        episodes.TABLE.name: episodes.episodes(flow, until),
        rebalance_inputs.TABLE.name: rebalance_inputs.rebalance_inputs(
            rebalance_inputs.with_rates(queues(depth), depth), since, until
        ),
    }


def write(frames: Mapping[str, DataFrame], day: date, tables: str, source: str = "delta") -> None:
    """Write the rows of a day to tables of these names, in place of earlier rows of that day. `source` is delta, or
    another of Spark's data sources that replace partitions.
    """
    for name, frame in frames.items():
        writer = frame.withColumn("dt", F.lit(str(day))).write.format(source).partitionBy("dt").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").save(f"{tables}/{name}")


if __name__ == "__main__":
    main()
