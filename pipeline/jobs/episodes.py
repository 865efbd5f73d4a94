"""Flow episodes: each time that a session was held by something, from its stop to its end."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

TABLE = Table(
    "episodes",
    "A time for which a session (a channel) was held by one thing. What is still held at the end of the range is there "
    "as `open`, what must have ended without telling (a row was lost, an acceptor died) as `lost`.",
    (
        Column("node", "string", "", "name of the node"),
        Column("epoch", "bigint", "µs since 1970 (UTC)", "when that was started"),
        Column("vhost", "string", "", "of the session"),
        Column("queue", "string", "", "the full queue; null where it was no single queue", nullable=True),
        Column("cause", "string", "", "as in `flow.cause`"),
        Column("connection", "string", "", "its connection"),
        Column("channel", "int", "", "its number"),
        Column("user", "string", "", "who was logged in"),
        Column("product", "string", "", "what the client calls itself", nullable=True),
        Column("started", "bigint", "µs since 1970 (UTC)", "when it was stopped"),
        Column(
            "ended", "bigint", "µs since 1970 (UTC)", "when that was over, at the latest; null: open", nullable=True
        ),
        Column("stopped_ms", "bigint", "ms", "how long it was; of one that is open, until the end of the range"),
        Column("outcome", "string", "", "as in `flow.outcome`, or `open`, or `lost`"),
        Column("mark", "bigint", "messages or bytes", "stop mark that was exceeded", nullable=True),
        Column("peak_depth", "bigint", "messages", "greatest depth seen meanwhile", nullable=True),
        Column("parked", "bigint", "messages", "publishes that were parked meanwhile", nullable=True),
        Column("after_stop", "bigint", "messages", "publishes that came after it was told", nullable=True),
        Column("told_how", "string", "", "as in `flow.told_how`", nullable=True),
        Column("obeyed", "boolean", "", "as in `flow.obeyed`", nullable=True),
    ),
)
SESSION = ("node", "epoch", "writer", "connection", "channel")


def episodes(flow: DataFrame, until: int) -> DataFrame:
    """`flow`: rows of telemetry of a range of time that ends at `until` (µs since 1970)."""
    marked = flow.where(F.col("action").isin("stop", "resume"))
    following = Window.partitionBy(*SESSION).orderBy("seq")
    marked = marked.withColumns(
        {"next_action": F.lead("action").over(following), "next_ts": F.lead("ts").over(following)}
    )
    whole = marked.where(F.col("action") == "resume").withColumns(
        {"started": F.col("ts") - F.col("stopped_ms") * 1000, "ended": F.col("ts")}
    )
    alone = marked.where((F.col("action") == "stop") & (F.coalesce("next_action", F.lit("stop")) == "stop"))
    return shaped(whole, TABLE).unionByName(shaped(_ended(alone, _lives(flow), until), TABLE))


def _lives(flow: DataFrame) -> DataFrame:
    """When each life of an acceptor was first heard of."""
    lives = flow.groupBy("node", "acceptor", "epoch", "writer").agg(F.min("ts").alias("since"))
    return lives.select("node", "acceptor", "since")


def _ended(stops: DataFrame, lives: DataFrame, until: int) -> DataFrame:
    """Stops without a resume, with the time at which they must have been over: another stop, or a later life."""
    later = stops.join(lives, ["node", "acceptor"], "left").where(F.col("since") > F.col("ts"))
    ends = later.groupBy(*SESSION, "seq").agg(F.min("since").alias("succeeded"))
    ended = stops.join(ends, [*SESSION, "seq"], "left").withColumn("ended", F.coalesce("next_ts", "succeeded"))
    return ended.withColumns(
        {
            "started": F.col("ts"),
            "stopped_ms": F.expr(f"(coalesce(ended, {until}) - ts) div 1000"),
            "outcome": F.when(F.col("ended").isNull(), "open").otherwise("lost"),
        }
    )
