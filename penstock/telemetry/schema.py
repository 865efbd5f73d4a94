"""The tables of telemetry, declared once: what writes them, what reads them and the reference page follow this.

A row is one JSON object a line with every column of its table. A column that is added later comes at the end and is
nullable; another meaning is another `VERSION`. Nothing is imported here that a reader does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

VERSION: Final = 1

Type: TypeAlias = Literal["bigint", "int", "smallint", "double", "string", "boolean"]
TYPES: Final[tuple[Type, ...]] = get_args(Type)

Event: TypeAlias = Literal["stop", "resume", "park", "pause", "unpause", "escalate"]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
"""What happens to a session (a channel) that is held: `flow.action`."""

Cause: TypeAlias = Literal[
    "count", "bytes", "exchange", "pattern", "vhost", "user", "node", "memory", "process memory", "store", "spill",
    "link", "pressure", "rate", "pace", "operator", "rebalance",
]  # fmt: skip
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
"""What holds it: `flow.cause`."""

Outcome: TypeAlias = Literal["free", "other-cause", "closed"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
"""How an episode of being held ended: `flow.outcome`."""

ConnectionEvent: TypeAlias = Literal["open", "close", "refused"]
CONNECTION_EVENTS: Final[tuple[ConnectionEvent, ...]] = get_args(ConnectionEvent)


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `unit` is "" where there is none."""

    name: str
    type: Type
    unit: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of rows. `columns` are all of them, in order, those of every table first."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


COMMON = (
    Column("v", "smallint", "", "version of the table"),
    Column("ts", "bigint", "µs since 1970 (UTC)", "when it was sampled, or happened"),
    Column("node", "string", "", "name of the node (`telemetry.node`)"),
    Column("epoch", "bigint", "µs since 1970 (UTC)", "when the node was started"),
    Column("writer", "string", "", "process that wrote the row: its role, index and incarnation, as in `acceptor.0.1`"),
    Column("seq", "bigint", "rows", "number of the row among those of its writer in this table, from 1; a gap is loss"),
    Column("rows_lost", "bigint", "rows", "rows that the writer has dropped since its row before, for want of room"),
)
"""The first columns of every table."""

DEPTH = Table(
    "depth",
    "A queue. Each second a row of every queue that has changed, every 10 seconds one of every queue that is not "
    "empty, each minute one of every queue. Counts are since the row before of the same queue, so that they can be "
    "summed; a queue that has been quiet gets a row of its last quiet second first. So between two rows nothing has "
    "changed, or only within the second before the later one.",
    (
        *COMMON,
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("shard", "int", "", "the shard it lives on"),
        Column("ready", "bigint", "messages", "waiting for a consumer"),
        Column("unacked", "bigint", "messages", "delivered, not yet acknowledged"),
        Column("ready_bytes", "bigint", "bytes", "bodies of those that are ready"),
        Column("unacked_bytes", "bigint", "bytes", "bodies of those that are unacked"),
        Column("n_published", "bigint", "messages", "enqueued"),
        Column("n_delivered", "bigint", "messages", "given to consumers, by deliver and get"),
        Column("n_acked", "bigint", "messages", "acknowledged, or rejected for good, or sent with no-ack"),
        Column("n_redelivered", "bigint", "messages", "delivered again"),
        Column("n_dropped", "bigint", "messages", "gone otherwise: by a limit, expired, replaced, purged"),
        Column("interval_ms", "bigint", "ms", "since the row before, or the queue was declared: what counts cover"),
        Column("consumers", "int", "consumers", "at present"),
        Column("stop_count", "bigint", "messages", "stop mark; 0: none"),
        Column("resume_count", "bigint", "messages", "resume mark"),
        Column("stop_bytes", "bigint", "bytes", "stop mark; 0: none"),
        Column("resume_bytes", "bigint", "bytes", "resume mark"),
        Column("saturated", "boolean", "", "producers are held"),
        Column("flow_epoch", "bigint", "changes", "how often `saturated` has changed"),
        Column("policy", "string", "", "the policy that governs it", nullable=True),
        Column("published_bytes", "bigint", "bytes", "bodies of those enqueued"),
        Column("delivered_bytes", "bigint", "bytes", "bodies of those given to consumers"),
        Column(
            "whole_bytes",
            "bigint",
            "bytes",
            "of those ready and unacked, whole: routing key, properties, headers, body, and 64 each, as marks in bytes "
            "count; null in rows of nodes that did not write it: their marks counted bodies",
            nullable=True,
        ),
    ),
)

FLOW = Table(
    "flow",
    "Something that happened to a session (a channel) for being held. `resume` ends an episode and carries all of it: "
    "one row an episode. When something else holds the session from now on, the episode ends and another begins.",
    (
        *COMMON,
        Column("vhost", "string", "", "of the session"),
        Column("queue", "string", "", "the full queue; null where it is no single queue that holds", nullable=True),
        Column("shard", "int", "", "where that lives, or the shard that holds", nullable=True),
        Column("acceptor", "int", "", "where the session is"),
        Column("connection", "string", "", "its connection"),
        Column("channel", "int", "", "its number"),
        Column("user", "string", "", "who is logged in"),
        Column("product", "string", "", "what the client calls itself", nullable=True),
        Column("action", "string", "", _listed(EVENTS)),
        Column("cause", "string", "", f"what holds it: {_listed(CAUSES)}"),
        Column("reason", "string", "", "the same as the client and the log are told it"),
        Column("exchange", "string", "", "it published to last", nullable=True),
        Column("depth", "bigint", "messages", "of what holds it, at that time; null where it has none", nullable=True),
        Column("bytes", "bigint", "bytes", "likewise, of whole messages", nullable=True),
        Column("mark", "bigint", "messages or bytes", "stop mark that is exceeded, as `cause` says", nullable=True),
        Column("flow_epoch", "bigint", "changes", "of the queue", nullable=True),
        Column("rung", "string", "", "where on its ladder an `escalate` brought it", nullable=True),
        Column("stopped_ms", "bigint", "ms", "`resume`: how long it was held", nullable=True),
        Column("peak_depth", "bigint", "messages", "`resume`: greatest depth that was seen meanwhile", nullable=True),
        Column("parked", "bigint", "messages", "`resume`: publishes that were parked meanwhile", nullable=True),
        Column("parked_bytes", "bigint", "bytes", "`resume`: contents of these", nullable=True),
        Column("after_stop", "bigint", "messages", "`resume`: publishes that came after it was told", nullable=True),
        Column("told_how", "string", "", "`resume`: `flow`, `blocked`, both with `+`, or `none`", nullable=True),
        Column(
            "obeyed",
            "boolean",
            "",
            "`resume`: it stopped when Channel.Flow told it to; null: not told so, or not answered",
            nullable=True,
        ),
        Column("paused_ms", "bigint", "ms", "`resume`: how long of that its socket was read slowly", nullable=True),
        Column("outcome", "string", "", f"`resume`: how it ended: {_listed(OUTCOMES)}", nullable=True),
    ),
)

SHARD = Table(
    "shard",
    "A shard, each second. Counts are sums over its queues, since the row before of the same shard.",
    (
        *COMMON,
        Column("shard", "int", "", "its index"),
        Column("pid", "int", "", "its process"),
        Column("incarnation", "int", "", "which life of the shard that is"),
        Column("cpu", "double", "cores", "processor time that it used, as a share of the interval"),
        Column("rss", "bigint", "bytes", "resident memory"),
        Column("loop_lag_p50_us", "bigint", "µs", "how late its loop came to what was due, lately: median"),
        Column("loop_lag_p99_us", "bigint", "µs", "99th percentile"),
        Column("msgs_in", "bigint", "messages", "enqueued"),
        Column("msgs_out", "bigint", "messages", "given to consumers"),
        Column("bytes_in", "bigint", "bytes", "bodies of those enqueued"),
        Column("bytes_out", "bigint", "bytes", "bodies of those given to consumers"),
        Column("interval_ms", "bigint", "ms", "since the row before: what counts and `cpu` cover"),
        Column("commit_us_p99", "bigint", "µs", "of commits of its store, 99th percentile", nullable=True),
        Column("store_used", "bigint", "bytes", "contents in its store"),
        Column("store_limit", "bigint", "bytes", "contents that may be there"),
        Column("memory_used", "bigint", "bytes", "contents in memory, of whole messages"),
        Column("memory_limit", "bigint", "bytes", "contents in memory at which it holds all its producers"),
        Column("queues", "int", "queues", "that live on it"),
        Column("ready", "bigint", "messages", "waiting for a consumer, in all queues"),
        Column("unacked", "bigint", "messages", "delivered, not yet acknowledged, in all queues"),
        Column("saturated", "boolean", "", "it holds the producers of all its queues"),
    ),
)

CONNECTION = Table(
    "connection",
    "A connection that was opened, closed or refused.",
    (
        *COMMON,
        Column("event", "string", "", _listed(CONNECTION_EVENTS)),
        Column("acceptor", "int", "", "where it is"),
        Column("connection", "string", "", "its id"),
        Column("peer", "string", "", "address and port of the client"),
        Column("product", "string", "", "what the client calls itself", nullable=True),
        Column("platform", "string", "", "likewise", nullable=True),
        Column("product_version", "string", "", "likewise", nullable=True),
        Column("user", "string", "", "who is logged in, or tried to", nullable=True),
        Column("vhost", "string", "", "its virtual host", nullable=True),
        Column("channels", "int", "channels", "open at that time"),
        Column("reason", "string", "", "why it was closed or refused", nullable=True),
        Column("open_ms", "bigint", "ms", "`close`: how long it was open", nullable=True),
    ),
)

PLACEMENT = Table(
    "placement",
    "A queue that has changed its home.",
    (
        *COMMON,
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("from_shard", "int", "", "where it lived"),
        Column("to_shard", "int", "", "where it lives"),
        Column("plan", "string", "", "id of the plan that said so", nullable=True),
        Column("version", "bigint", "", "of the placement, since that change"),
        Column("pause_ms", "bigint", "ms", "how long its producers were held", nullable=True),
        Column("messages", "bigint", "messages", "that were moved", nullable=True),
        Column("bytes", "bigint", "bytes", "of these, whole messages", nullable=True),
    ),
)

TABLES: Final = {table.name: table for table in (DEPTH, FLOW, SHARD, CONNECTION, PLACEMENT)}
