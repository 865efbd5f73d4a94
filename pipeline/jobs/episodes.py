"""Flow episodes: the periods for which one cause held a channel."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

TABLE = Table(
    "episodes",
    "A period for which one cause held a channel. One that has not ended by the end of the range has the outcome "
    "`open`, one whose end was not recorded (a row was lost, an acceptor died) the outcome `lost`.",
    (
        Column("node", "string", "", "name of the node"),
        Column("epoch", "bigint", "µs since 1970 (UTC)", "start of the node"),
        Column("vhost", "string", "", "virtual host of the channel"),
        Column("queue", "string", "", "the full queue; null if no single queue held the channel", nullable=True),
        Column("cause", "string", "", "as in `flow.cause`"),
        Column("connection", "string", "", "connection of the channel"),
        Column("channel", "int", "", "number of the channel"),
        Column("user", "string", "", "user of the connection"),
        Column("product", "string", "", "product that the client names", nullable=True),
        Column("started", "bigint", "µs since 1970 (UTC)", "when the channel was stopped"),
        Column(
            "ended", "bigint", "µs since 1970 (UTC)", "when the episode ended, at the latest; null: open", nullable=True
        ),
        Column("stopped_ms", "bigint", "ms", "length of the episode; an open one counts until the end of the range"),
        Column("outcome", "string", "", "as in `flow.outcome`, or `open`, or `lost`"),
        Column("mark", "bigint", "messages or bytes", "stop mark that was exceeded", nullable=True),
        Column("peak_depth", "bigint", "messages", "greatest depth seen in the episode", nullable=True),
        Column("parked", "bigint", "messages", "publishes parked in the episode", nullable=True),
        Column("after_stop", "bigint", "messages", "publishes received after the client was notified", nullable=True),
        Column("notified_by", "string", "", "as in `flow.notified_by`", nullable=True),
        Column("obeyed", "boolean", "", "as in `flow.obeyed`", nullable=True),
    ),
)
CHANNEL = ("node", "epoch", "writer", "connection", "channel")


def episodes(flow: DataFrame, until: int) -> DataFrame:
    """Build the episodes. `flow` has rows of the table of a range that ends at `until` (µs since 1970)."""
    marked = flow.where(F.col("action").isin("stop", "resume"))
    following = Window.partitionBy(*CHANNEL).orderBy("seq")
    marked = marked.withColumns(
        {"next_action": F.lead("action").over(following), "next_ts": F.lead("ts").over(following)}
    )
    whole = marked.where(F.col("action") == "resume").withColumns(
        {"started": F.col("ts") - F.col("stopped_ms") * 1000, "ended": F.col("ts")}
    )
    alone = marked.where((F.col("action") == "stop") & (F.coalesce("next_action", F.lit("stop")) == "stop"))
    return shaped(whole, TABLE).unionByName(shaped(_ended(alone, _incarnations(flow), until), TABLE))


def _incarnations(flow: DataFrame) -> DataFrame:
    """Return the first sign of each incarnation of an acceptor."""
    incarnations = flow.groupBy("node", "acceptor", "epoch", "writer").agg(F.min("ts").alias("since"))
    return incarnations.select("node", "acceptor", "since")


def _ended(stops: DataFrame, incarnations: DataFrame, until: int) -> DataFrame:
    """Return stops without a resume, ended at the latest by the channel's next stop or by a later incarnation of the
    acceptor.
    """
    later = stops.join(incarnations, ["node", "acceptor"], "left").where(F.col("since") > F.col("ts"))
    ends = later.groupBy(*CHANNEL, "seq").agg(F.min("since").alias("succeeded"))
    ended = stops.join(ends, [*CHANNEL, "seq"], "left").withColumn("ended", F.coalesce("next_ts", "succeeded"))
    return ended.withColumns(
        {
            "started": F.col("ts"),
            "stopped_ms": F.expr(f"(coalesce(ended, {until}) - ts) div 1000"),
            "outcome": F.when(F.col("ended").isNull(), "open").otherwise("lost"),
        }
    )
