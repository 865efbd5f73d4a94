"""The tables of telemetry, declared once: writers, readers and the reference page use this declaration.

A row is one JSON object a line with every column of its table. A column that is added later comes at the end and is
nullable; a change of meaning needs another `VERSION`. This module imports nothing that a reader does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

VERSION: Final = 1

Type: TypeAlias = Literal["bigint", "int", "smallint", "double", "string", "boolean"]
TYPES: Final[tuple[Type, ...]] = get_args(Type)

Event: TypeAlias = Literal["stop", "resume", "park", "pause", "unpause", "escalate"]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
"""Events of a held channel: `flow.action`."""

Cause: TypeAlias = Literal[
    "count", "bytes", "exchange", "pattern", "vhost", "user", "node", "memory", "process memory", "store", "spill",
    "link", "pressure", "rate", "pace", "operator", "rebalance",
]  # fmt: skip
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
"""Causes of a hold: `flow.cause`."""

Outcome: TypeAlias = Literal["free", "other-cause", "closed"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
"""How a hold ended: `flow.outcome`."""

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
    """One kind of rows. `columns` are all of them, in order, the common ones first."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


COMMON = (
    Column("v", "smallint", "", "version of the table"),
    Column("ts", "bigint", "µs since 1970 (UTC)", "time of the sample, or of the event"),
    Column("node", "string", "", "name of the node (`telemetry.node`), different for nodes that share a directory"),
    Column("epoch", "bigint", "µs since 1970 (UTC)", "start of the node"),
    Column("writer", "string", "", "process that wrote the row: its role, index and incarnation, as in `acceptor.0.1`"),
    Column("seq", "bigint", "rows", "number of the row among its writer's rows in this table, from 1; a gap is loss"),
    Column("rows_lost", "bigint", "rows", "rows that the writer has dropped since its previous row, for lack of room"),
)
"""The first columns of every table."""

DEPTH = Table(
    "depth",
    "A queue. Each second a row for every queue that has changed, every 10 seconds one for every queue that is not "
    "empty, each minute one for every queue. Counts are since the previous row of the same queue, so that they can be "
    "summed; when a quiet queue changes, its last quiet second gets a row first. So between two rows nothing has "
    "changed, or only within the second before the later one.",
    (
        *COMMON,
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("shard", "int", "", "the shard it lives on"),
        Column("ready", "bigint", "messages", "waiting for a consumer"),
        Column("unacked", "bigint", "messages", "delivered, not yet acknowledged"),
        Column("ready_bytes", "bigint", "bytes", "bodies of ready messages"),
        Column("unacked_bytes", "bigint", "bytes", "bodies of unacked messages"),
        Column("n_published", "bigint", "messages", "enqueued"),
        Column("n_delivered", "bigint", "messages", "delivered to consumers, by deliver and get"),
        Column("n_acked", "bigint", "messages", "acknowledged, or rejected for good, or sent with no-ack"),
        Column("n_redelivered", "bigint", "messages", "redelivered"),
        Column("n_dropped", "bigint", "messages", "removed otherwise: by a limit, expired, replaced, purged"),
        Column("interval_ms", "bigint", "ms", "since the previous row, or the declaration: the period of the counts"),
        Column("consumers", "int", "consumers", "at present"),
        Column("stop_count", "bigint", "messages", "stop mark; 0: none"),
        Column("resume_count", "bigint", "messages", "resume mark"),
        Column("stop_bytes", "bigint", "bytes", "stop mark; 0: none"),
        Column("resume_bytes", "bigint", "bytes", "resume mark"),
        Column("saturated", "boolean", "", "producers are held"),
        Column("flow_epoch", "bigint", "changes", "number of changes of `saturated`"),
        Column("policy", "string", "", "its policy", nullable=True),
        Column("published_bytes", "bigint", "bytes", "bodies of messages enqueued"),
        Column("delivered_bytes", "bigint", "bytes", "bodies of messages delivered to consumers"),
        Column(
            "whole_bytes",
            "bigint",
            "bytes",
            "whole messages, ready and unacked: routing key, properties, headers, body, and 64 each, as marks in bytes "
            "count; null in rows of nodes without this column, whose marks count bodies",
            nullable=True,
        ),
    ),
)

FLOW = Table(
    "flow",
    "An event of a held channel. A hold by one cause is an episode; its `resume` row ends and summarises it: "
    "one row an episode. When another cause takes over, the episode ends and another begins.",
    (
        *COMMON,
        Column("vhost", "string", "", "the channel's virtual host"),
        Column("queue", "string", "", "the full queue; null where no single queue holds the channel", nullable=True),
        Column("shard", "int", "", "the queue's shard, or the shard that holds the channel", nullable=True),
        Column("acceptor", "int", "", "the channel's acceptor"),
        Column("connection", "string", "", "the channel's connection"),
        Column("channel", "int", "", "the channel's number"),
        Column("user", "string", "", "the user logged in"),
        Column("product", "string", "", "what the client calls itself", nullable=True),
        Column("action", "string", "", _listed(EVENTS)),
        Column("cause", "string", "", f"the cause of the hold: {_listed(CAUSES)}"),
        Column("reason", "string", "", "the cause in words, as in the log and in messages to the client"),
        Column("exchange", "string", "", "the exchange of its last publish", nullable=True),
        Column("depth", "bigint", "messages", "depth of its holder at that time; null if it has none", nullable=True),
        Column("bytes", "bigint", "bytes", "likewise, in bytes of whole messages", nullable=True),
        Column("mark", "bigint", "messages or bytes", "the stop mark exceeded, in the unit of `cause`", nullable=True),
        Column("flow_epoch", "bigint", "changes", "flow epoch of the queue", nullable=True),
        Column("rung", "string", "", "`escalate`: the new rung of its ladder", nullable=True),
        Column("stopped_ms", "bigint", "ms", "`resume`: how long it was held", nullable=True),
        Column("peak_depth", "bigint", "messages", "`resume`: greatest depth seen meanwhile", nullable=True),
        Column("parked", "bigint", "messages", "`resume`: publishes that were parked meanwhile", nullable=True),
        Column("parked_bytes", "bigint", "bytes", "`resume`: contents of these publishes", nullable=True),
        Column("after_stop", "bigint", "messages", "`resume`: publishes received after it was stopped", nullable=True),
        Column("notified_by", "string", "", "`resume`: by `flow`, `blocked`, both with `+`, or `none`", nullable=True),
        Column(
            "obeyed",
            "boolean",
            "",
            "`resume`: the client obeyed Channel.Flow; null: it got none, or has not answered",
            nullable=True,
        ),
        Column("paused_ms", "bigint", "ms", "`resume`: how long its socket was read by the drip", nullable=True),
        Column("outcome", "string", "", f"`resume`: how it ended: {_listed(OUTCOMES)}", nullable=True),
    ),
)

SHARD = Table(
    "shard",
    "A shard, each second. Counts are sums over its queues, since the previous row of the same shard.",
    (
        *COMMON,
        Column("shard", "int", "", "its index"),
        Column("pid", "int", "", "its process"),
        Column("incarnation", "int", "", "its incarnation"),
        Column("cpu", "double", "cores", "CPU time used, as a share of the interval"),
        Column("rss", "bigint", "bytes", "resident memory"),
        Column("loop_lag_p50_us", "bigint", "µs", "event-loop lag of late, median"),
        Column("loop_lag_p99_us", "bigint", "µs", "event-loop lag of late, 99th percentile"),
        Column("msgs_in", "bigint", "messages", "enqueued"),
        Column("msgs_out", "bigint", "messages", "delivered to consumers"),
        Column("bytes_in", "bigint", "bytes", "bodies of messages enqueued"),
        Column("bytes_out", "bigint", "bytes", "bodies of messages delivered to consumers"),
        Column("interval_ms", "bigint", "ms", "since the previous row: the period of counts and `cpu`"),
        Column("commit_us_p99", "bigint", "µs", "duration of commits of its store, 99th percentile", nullable=True),
        Column("store_used", "bigint", "bytes", "contents in its store"),
        Column("store_limit", "bigint", "bytes", "limit of contents in its store"),
        Column("memory_used", "bigint", "bytes", "contents in memory, of whole messages"),
        Column("memory_limit", "bigint", "bytes", "contents in memory above which it holds all its producers"),
        Column("queues", "int", "queues", "number of queues on it"),
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
        Column("acceptor", "int", "", "its acceptor"),
        Column("connection", "string", "", "its id"),
        Column("peer", "string", "", "address and port of the client"),
        Column("product", "string", "", "what the client calls itself", nullable=True),
        Column("platform", "string", "", "likewise", nullable=True),
        Column("product_version", "string", "", "likewise", nullable=True),
        Column("user", "string", "", "the user logged in, or who tried to", nullable=True),
        Column("vhost", "string", "", "its virtual host", nullable=True),
        Column("channels", "int", "channels", "channels open at that time"),
        Column("reason", "string", "", "why it was closed or refused", nullable=True),
        Column("open_ms", "bigint", "ms", "`close`: how long it was open", nullable=True),
    ),
)

PLACEMENT = Table(
    "placement",
    "A queue that has moved to another shard.",
    (
        *COMMON,
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("from_shard", "int", "", "its old shard"),
        Column("to_shard", "int", "", "its new shard"),
        Column("plan", "string", "", "id of the plan of the move", nullable=True),
        Column("version", "bigint", "", "version of the placement after the move"),
        Column("pause_ms", "bigint", "ms", "how long its producers were held", nullable=True),
        Column("messages", "bigint", "messages", "messages moved", nullable=True),
        Column("bytes", "bigint", "bytes", "size of these as whole messages", nullable=True),
    ),
)

TABLES: Final = {table.name: table for table in (DEPTH, FLOW, SHARD, CONNECTION, PLACEMENT)}
