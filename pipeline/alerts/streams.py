"""The streaming queries: rows of finished files of the live tier, aggregated for the board."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.telemetry.schema import DEPTH, FLOW, SHARD, Table
from pipeline import layout
from pipeline.alerts.board import FACTS, Alert, Board, Limits
from pipeline.alerts.saved_board import SavedBoard
from pipeline.errors import PipelineError, reason
from pipeline.files import Files
from pipeline.jobs import trend
from pipeline.jobs.queues import PLACE
from pipeline.schema import partitioned

WINDOW_S_LEAST = 120
SLIDES = 6
"""How many windows hold each row."""
LATE = "5 minutes"
"""How long a window stays open: file_seconds x 3, plus differences between clocks."""
FILES_A_BATCH = 500
TICK_S = 1.0

Rows = list[dict[str, Any]]
Publish = Callable[[list[Alert]], None]


class Alerts:
    """The queries on a root directory, and the board that they share. A batch's alerts are saved, then published; then
    the batch is done. Alerts of which it is not known whether they were published are published again, and say so.
    """

    def __init__(
        self, spark: SparkSession, root: str, checkpoint: str, limits: Limits, publish: Publish, trigger_s: float = 1.0
    ) -> None:
        """`publish` is called with new alerts, from several threads but never concurrently."""
        self.spark, self.root, self.checkpoint = spark, root, checkpoint.rstrip("/")
        self.publish = publish
        self.trigger = f"{trigger_s} seconds"
        self.files = Files(spark)
        self.lock = threading.Lock()
        self.saved = SavedBoard(self.files, self.checkpoint)
        self.board = Board.from_json(limits, self.saved.read())
        self.queries: list[StreamingQuery] = []

    def start(self) -> None:
        """Publish what an earlier run left unpublished, and start the queries. PipelineError if that fails."""
        with self.lock:
            self._publish_saved()
        try:
            self._start(
                "queues", queue_rows(self._rows(DEPTH), self.board.limits), "update", latest_queues, Board.queues
            )
            self._start("shards", shard_rows(self._rows(SHARD)), "update", latest_shards, Board.shards)
            self._start("flow", flow_rows(self._rows(FLOW)), "append", in_order, Board.flow)
        except Exception as error:
            self.stop()
            raise PipelineError(f"alerts cannot be started: {reason(error)}") from error

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Watch until `until` returns True. PipelineError if a query fails."""
        while not until():
            for query in self.queries:
                if not query.isActive:
                    failed = query.exception()
                    raise PipelineError(f"alerts of {query.name} ended: {reason(failed or 'stopped')}")
            self._publish("tick", None, self.board.tick(time.time_ns() // 1000))
            time.sleep(TICK_S)

    def stop(self) -> None:
        """Stop the queries."""
        for query in self.queries:
            query.stop()

    def _rows(self, table: Table) -> DataFrame:
        """Stream rows of a table as its files are finished. Create its directory first: Spark fails without one."""
        base = layout.live_base(self.root, table.name)
        self.files.make_directory(base)
        reader = self.spark.readStream.schema(partitioned(table)).option("maxFilesPerTrigger", FILES_A_BATCH)
        frame = reader.option("ignoreMissingFiles", True).option("ignoreCorruptFiles", True).json(base)
        return frame.where(F.col("ts").isNotNull()).withColumn("time", F.timestamp_micros("ts"))

    def _start(
        self,
        name: str,
        frame: DataFrame,
        mode: str,
        pick: Callable[[DataFrame, Board], Rows],
        process: Callable[[Board, Iterable[Mapping[str, Any]]], list[Alert]],
    ) -> None:
        def process_batch(batch: DataFrame, number: int) -> None:
            if number > self.board.batches.get(name, -1):
                rows = pick(batch, self.board)
                self._publish(name, number, lambda: process(self.board, rows))

        writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(process_batch)
        writer = writer.option("checkpointLocation", f"{self.checkpoint}/{name}")
        self.queries.append(writer.trigger(processingTime=self.trigger).start())

    def _publish(self, name: str, number: int | None, found: list[Alert] | Callable[[], list[Alert]]) -> None:
        with self.lock:
            alerts = found() if callable(found) else found
            self.board.unpublished += alerts
            if number is not None:
                self.board.batches[name] = number
            if alerts or number is not None:
                self._save()
            self._publish_saved()

    def _publish_saved(self) -> None:
        """Publish the alerts on the board, if there are any."""
        alerts = self.board.unpublished
        if not alerts:
            return
        self.board.unpublished = [replace(alert, repeated=True) for alert in alerts]
        self.publish(alerts)
        self.board.unpublished = []
        self._save()

    def _save(self) -> None:
        self.saved.write(self.board.to_json())


def queue_window_s(full_s: float) -> int:
    """Return the length of the windows in which queues are forecast. All but a slide of it is long enough for a line to
    reach `full_s` seconds, so that the earliest window that has a row is.
    """
    slide_s = math.ceil(full_s / trend.REACH / (SLIDES - 1))
    return max(SLIDES * slide_s, WINDOW_S_LEAST)


def queue_rows(depth: DataFrame, limits: Limits) -> DataFrame:
    """Forecast each queue by the line through its depths in each window. `unsure_seconds`: by the line whatever it is
    worth; 0 if the queue was full in the window.
    """
    windowed = depth.withWatermark("time", LATE).withColumn("window", _window(queue_window_s(limits.full_s)))
    begin, end = (F.unix_micros(f"window.{name}") for name in ("start", "end"))
    groups = trend.points(windowed, begin, end).groupBy("window", *PLACE)
    unsure = F.when(F.col("was_full"), F.lit(0.0)).otherwise(F.col("extrapolated"))
    return trend.forecast(trend.lines(groups), trend.SAMPLES_LEAST).withColumn("unsure_seconds", unsure)


def shard_rows(shards: DataFrame) -> DataFrame:
    """Sum the messages of each shard in each window."""
    groups = shards.withWatermark("time", LATE).groupBy(_window(WINDOW_S_LEAST).alias("window"), "node", "shard")
    return groups.agg(
        F.max("ts").alias("at"),
        F.sum(F.col("msgs_in") + F.col("msgs_out")).alias("moved"),
        F.sum("interval_ms").alias("covered_ms"),
    )


def flow_rows(flow: DataFrame) -> DataFrame:
    """Select the rows of stops and resumes."""
    columns = ("ts", "seq", "node", "connection", "channel", "user", "action", "outcome", "stopped_ms")
    return flow.where(F.col("action").isin("stop", "resume")).select(*columns)


def latest_queues(batch: DataFrame, board: Board) -> Rows:
    """Return the earliest of the windows that have a queue's latest row, if the queue will soon be full or has an alert
    on the board. It has all rows of the others; how much time the latest window covers depends on where it begins.
    """
    order = F.struct("at", -F.unix_micros("window.start"))
    last = F.max_by(F.struct("seconds", "unsure_seconds", *FACTS, "at"), order).alias("last")
    flat = batch.groupBy(*PLACE).agg(last).select(*PLACE, "last.*")
    standing = [subject for kind, subject in board.standing if kind == "queue-full"]
    wanted = F.col("seconds") <= board.limits.full_s
    if standing:
        known = batch.sparkSession.createDataFrame(standing, "node string, vhost string, queue string")
        flat = flat.join(F.broadcast(known.withColumn("stands", F.lit(True))), [*PLACE], "left")
        wanted = wanted | F.col("stands")
    return [row.asDict() for row in flat.where(wanted).collect()]


def latest_shards(batch: DataFrame, board: Board) -> Rows:
    """Return the shards of each node in the latest window that rows cover at least by half."""
    enough = batch.where(F.col("covered_ms") >= WINDOW_S_LEAST * 1000 // 2)
    ends = enough.groupBy("node").agg(F.max("window.end").alias("end"))
    rows = enough.join(ends, "node").where(F.col("window.end") == F.col("end"))
    rate = (F.col("moved") * 1000 / F.col("covered_ms")).cast("double").alias("rate")
    return [row.asDict() for row in rows.select("node", "shard", "at", rate).collect()]


def in_order(batch: DataFrame, board: Board) -> Rows:
    """Return rows in order of time, those of one writer as written."""
    return [row.asDict() for row in batch.orderBy("ts", "seq").collect()]


def _window(seconds: int) -> Expression:
    return F.window("time", f"{seconds} seconds", f"{seconds // SLIDES} seconds")
