"""The sections of the settings: limits of AMQP, flow control, hold-offs, memory, stores, telemetry, traces,
rebalancing.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.limits.watermarks import FlowDefaults
from penstock.settings.automatic import AutomaticSettings
from penstock.settings.values import KIB, MIB, Bytes, Directory, Durability, Names, ProcessMemory

STORE_SHARE = 0.8
UNHURRIED_MS = 5000
"""Interval of flushes with `store.durability = "none"`, in milliseconds."""
WATCHDOG_LEAST = 2.0
"""Seconds; several times as long as a healthy process is silent."""


class _WithMarks(Protocol):
    stop_percent: int
    resume_percent: int


M = TypeVar("M", bound=_WithMarks)


def _resume_not_above_stop(section: M) -> M:
    if section.resume_percent > section.stop_percent:
        raise ValueError(f"resume_percent ({section.resume_percent}) is above stop_percent ({section.stop_percent})")
    return section


class AmqpSettings(BaseModel):
    """Features offered to clients, and limits on what they may send."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    product: Literal["rabbitmq", "penstock"] = Field(
        default="rabbitmq",
        description="product named in connection.start: clients derive the broker's capabilities from it, "
        "and know RabbitMQ",
    )
    frame_max: Bytes = Field(
        default=128 * KIB,
        ge=4096,
        le=16 * MIB,
        description="largest frame offered in connection.tune, in bytes with its overhead",
    )
    channel_max: int = Field(
        default=2047, ge=1, le=65535, description="highest channel number offered in connection.tune"
    )
    heartbeat: int = Field(
        default=60,
        ge=0,
        le=65535,
        description="heartbeat interval offered in connection.tune, in seconds; 0 offers none",
    )
    max_message_size: Bytes = Field(
        default=128 * MIB,
        ge=1,
        le=1024 * MIB,
        description="largest body of a message, in bytes; a larger one closes the channel",
    )
    consumer_timeout: float = Field(
        default=1800.0,
        ge=0,
        description="time a client has to acknowledge a delivery before its channel is closed, in seconds; queues may "
        "set their own (x-consumer-timeout); 0 is no limit",
    )
    consumers_per_channel: int = Field(
        default=0, ge=0, description="maximum number of consumers of a channel; 0 is no limit"
    )
    prefetch_max: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="maximum number of unacked deliveries of a consumer: a larger prefetch, or none, "
        "counts as that; 0 is no limit",
    )
    unacked_bytes: Bytes = Field(
        default=0,
        ge=0,
        description="unacked deliveries that a channel may have before its consumers wait, in bytes "
        "of whole messages; the last one may exceed it, whatever its size; each shard that the channel has consumed "
        "from enforces an equal part; 0 is no limit",
    )
    transaction_timeout: float = Field(
        default=3600.0,
        ge=0,
        description="time a transaction may stay open from its first publish or settlement, in seconds; then its "
        "channel is closed; 0 is no limit",
    )
    transaction_bytes: Bytes = Field(
        default=64 * MIB,
        ge=0,
        description="contents of a connection's publishes that wait for tx.commit, in bytes; more close the channel",
    )
    output_bytes: Bytes = Field(
        default=16 * MIB,
        ge=64 * KIB,
        description="answers (returns, gets, replies, confirms) kept for a client that does not read them, in bytes; "
        "beyond that its connection is not read",
    )
    unfinished_bytes: Bytes = Field(
        default=64 * MIB,
        ge=0,
        description="unfinished bodies of a connection on several channels, in bytes beyond the "
        "largest of them; more close it",
    )
    max_arguments_bytes: Bytes = Field(
        default=16 * KIB,
        ge=1024,
        le=1024 * KIB,
        description="arguments of a queue, an exchange or a binding, in bytes; a declaration with more is refused",
    )
    bindings_per_exchange: int = Field(
        default=100_000,
        ge=0,
        description="maximum number of bindings from an exchange; more are refused; 0 is no limit",
    )
    bindings_per_queue: int = Field(
        default=100_000, ge=0, description="maximum number of bindings to a queue; more are refused; 0 is no limit"
    )
    pattern_words: int = Field(
        default=32,
        ge=0,
        description="maximum number of words in the pattern of a binding to a topic exchange; more are refused; 0 is "
        "no limit",
    )
    binding_headers: int = Field(
        default=64,
        ge=0,
        description="maximum number of headers in a binding to a headers exchange; more are refused; 0 is no limit",
    )
    receive_buffer: Bytes = Field(
        default=256 * KIB,
        ge=0,
        description="kernel's receive buffer of a connection, in bytes; it bounds what a stopped producer may still "
        "send; 0 lets the kernel grow it",
    )
    loopback_users: Names = Field(
        default=("guest",),
        description="users who may log in from this machine only, separated by commas; empty restricts no user",
        json_schema_extra={"default_text": "`guest`"},
    )
    handshake_timeout: float = Field(
        default=10.0, gt=0, le=3600, description="time a client has between connecting and connection.open, in seconds"
    )


class FlowSettings(BaseModel):
    """When producers are stopped and resumed, and how much may wait meanwhile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_count: int = Field(
        default=0, ge=0, description="limit of a queue that has none of its own, in messages; 0 is no limit"
    )
    max_bytes: Bytes = Field(
        default=0, ge=0, description="limit of a queue that has none of its own, in bytes of contents; 0 is no limit"
    )
    stop_percent: int = Field(
        default=80, ge=1, le=100, description="stop mark of a queue that has none of its own, in percent of its limit"
    )
    resume_percent: int = Field(
        default=70,
        ge=0,
        le=100,
        description="resume mark of a queue that has none of its own, in percent; at most stop_percent",
    )
    unprivileged_limit: Bytes = Field(
        default=1024 * MIB,
        ge=0,
        description="contents of an unprivileged queue (exclusive, temporary or never consumed from), or of one that "
        "may not stop all its producers, before its oldest messages are dropped, in bytes plus 64 for each message; "
        "0 is no limit",
    )
    near_percent: int = Field(
        default=90, ge=1, le=100, description="share of the stop mark at which a queue emits its near event, in percent"
    )
    early_rate: float = Field(
        default=0.2,
        ge=0,
        description="producers that lately (about 10 s) published to a queue at least at this rate are told at once "
        "that it has stopped, not only at their next publish, in messages per second; 0 tells no producer early",
    )
    parking_bytes: Bytes = Field(
        default=128 * KIB,
        ge=0,
        description="contents of held publishes kept for a connection before it is read by the drip, in bytes",
    )
    held_bytes: Bytes = Field(
        default=64 * MIB,
        ge=64 * KIB,
        description="held publishes kept for a connection, in memory and on disk, in bytes; then last_resort applies",
    )
    user_percent: int = Field(
        default=50,
        ge=1,
        le=100,
        description="held publishes kept for a user, including those of closed connections, in percent of "
        "parked_memory and spool_limit together; then last_resort applies",
    )
    vhost_percent: int = Field(
        default=75,
        ge=1,
        le=100,
        description="held publishes kept for all connections to a vhost, including closed ones, in percent of "
        "parked_memory and spool_limit together; then last_resort applies",
    )
    last_resort: Literal["close", "pause", "nack"] = Field(
        default="close",
        description="what happens to a connection when no more of its publishes can be kept: close, with 506; pause, "
        "it is not read until there is room, which many clients do not survive; nack, its publishes with confirms are "
        "nacked until there is room; without confirms it is closed",
    )
    flow_ignored: Literal["pause", "close"] = Field(
        default="pause",
        description="what happens to a connection that goes on publishing after a channel.flow that stops it: pause, "
        "it gets no further channel.flow and is paused from its first waiting publish on; close, with 506",
    )
    parked_memory: Bytes = Field(
        default=64 * MIB,
        ge=0,
        description="contents of held publishes an acceptor keeps in memory, in bytes; the rest goes to disk",
    )
    spool_limit: Bytes = Field(
        default=1024 * MIB,
        ge=0,
        description="contents of held publishes an acceptor keeps on disk, in bytes",
    )
    pair_bytes: Bytes = Field(
        default=1 * MIB,
        ge=64 * KIB,
        le=256 * MIB,
        description="contents in flight from an acceptor to a shard, in bytes; large ones that only pass "
        "count a quarter, those for a queue whose consumers lag count four times",
    )
    pair_count: int = Field(
        default=2048,
        ge=64,
        le=1_000_000,
        description="publishes in flight from an acceptor to a shard, in messages; those that only pass "
        "count a quarter, those for a queue whose consumers lag count four times",
    )
    consumer_window_bytes: Bytes = Field(
        default=4 * MIB,
        ge=64 * KIB,
        description="deliveries in flight from a shard to a consumer, in bytes of whole messages; one large message "
        "may exceed it",
    )
    connection_window_bytes: Bytes = Field(
        default=8 * MIB,
        ge=64 * KIB,
        description="the same for all consumers of a connection together",
    )
    tx_when_full: Literal["wait", "reject"] = Field(
        default="wait",
        description="what a tx.commit does when a queue lacks room: wait for it, or reject: the channel is closed "
        "and the transaction rolled back",
    )
    recheck_seconds: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="how often held channels re-read the gauges in case a broadcast was lost, in seconds",
    )

    deadlock_seconds: float = Field(
        default=10,
        ge=0,
        le=3600,
        description="how long all programs in a circle of full queues wait before it counts as a deadlock, in seconds; "
        "a tenth of it where all usually settle deliveries much more quickly, a fiftieth for a first loan where "
        "each program also consumes and publishes on one connection; 0 disables the search",
    )

    deadlock: Literal["report", "credit", "spill", "nack"] = Field(
        default="credit", description="what a queue without x-deadlock does about a deadlock"
    )
    lend_percent: int = Field(
        default=1000,
        ge=0,
        le=1_000_000,
        description="maximum lent to a queue in deadlocks, in percent of its stop marks; at least 1,000 messages and "
        "1 MiB",
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)

    @property
    def defaults(self) -> FlowDefaults:
        """Limits and marks of a queue that names none itself."""
        return FlowDefaults(self.max_count, self.max_bytes, self.stop_percent, self.resume_percent)


class HoldOffSettings(BaseModel):
    """How long a user is refused from an address after the last rung of a ladder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(
        default=1.0,
        gt=0,
        description="the first hold-off if the rung names no time, in seconds; each further one lasts twice as long",
    )
    max_seconds: float = Field(default=300.0, gt=0, description="the longest hold-off, in seconds")
    forget_seconds: float = Field(
        default=600.0, ge=0, description="how long after a hold-off the next one is a first one again, in seconds"
    )


class MemorySettings(BaseModel):
    """Where the node's memory stops producers, and where it resumes them."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    stop_percent: int = Field(
        default=80, ge=1, le=100, description="stop mark, in percent of memory_limit and of process_limit"
    )
    resume_percent: int = Field(
        default=70, ge=0, le=100, description="resume mark, in percent of both; at most stop_percent"
    )
    process_limit: ProcessMemory = Field(
        default=0,
        ge=0,
        description="private memory of all processes of the node, whatever its use, in bytes; 0 is all "
        "available memory",
    )
    user_percent: int = Field(
        default=25,
        ge=1,
        le=100,
        description="unfinished bodies, unread answers and transactions of all connections of a user, "
        "in percent of process_limit, an equal part of it for each acceptor; beyond that they are not read, or get 406",
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)


class StoreSettings(BaseModel):
    """Where persistent messages are kept, and what their confirms promise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    durability: Durability = Field(
        default="commit",
        description="when persistent messages are confirmed: commit, once they are on the disk; interval=N ms, once "
        "they are written, with a flush to disk every N milliseconds, which a power cut may lose; none, the same with "
        f"{UNHURRIED_MS} ms. A crash of penstock loses nothing with any of them",
    )
    limit: Bytes = Field(
        default=0,
        ge=0,
        description=f"contents the node's stores may hold, in bytes; 0 is {STORE_SHARE:.0%} of the space free on the "
        "disk, or already theirs, when the node starts",
    )
    spill_limit: Bytes = Field(
        default=0,
        ge=0,
        description="part of limit for contents stored only for lack of memory, in bytes; 0 is no further limit",
    )
    stop_percent: int = Field(default=100, ge=1, le=100, description="stop mark, in percent of limit and spill_limit")
    resume_percent: int = Field(
        default=95, ge=0, le=100, description="resume mark, in percent of both; at most stop_percent"
    )

    _marks = model_validator(mode="after")(_resume_not_above_stop)

    @property
    def flush_ms(self) -> int:
        """Milliseconds between two flushes to the disk; 0 for one with each commit."""
        fixed = {"commit": 0, "none": UNHURRIED_MS}
        return fixed[self.durability] if self.durability in fixed else int(self.durability.removeprefix("interval="))


class WatchdogSettings(BaseModel):
    """When a process that gives no sign of life is replaced, and whether one that crashes leaves a core dump."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(
        default=30.0,
        ge=0,
        description="how long a process may give no sign of life before it is killed and replaced, in seconds, at "
        "least 2; 0 replaces none",
    )
    busy_seconds: float = Field(
        default=600.0,
        ge=0,
        description="the same while it loads its store or waits for the disk, in seconds; at least watchdog.seconds",
    )
    core_dumps: bool = Field(
        default=False,
        description="whether processes that crash leave core dumps, as far as the inherited limit allows them: they "
        "contain messages, keys and passwords",
    )

    @model_validator(mode="after")
    def _seconds_are_enough(self) -> WatchdogSettings:
        if 0 < self.seconds < WATCHDOG_LEAST:
            raise ValueError(f"seconds ({self.seconds:g}) is below {WATCHDOG_LEAST:g}")
        return self


class TelemetrySettings(BaseModel):
    """Recording of the node's queues, producers and shards, for later analysis."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="whether the node records telemetry")
    directory: Directory | None = Field(
        default=None,
        description="directory of the recorded files, which may be read, and deleted, while the node runs",
        json_schema_extra={"default_text": "`telemetry` in the data directory"},
    )
    node: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,64}$",
        description="name of the node in all rows, different from those of other nodes in the same directory",
        json_schema_extra={"default_text": "the machine's name and a number of the data directory"},
    )
    frame_seconds: float = Field(
        default=2.0, ge=0.05, le=60, description="interval of writing rows, in seconds; a crash may lose as much"
    )
    file_seconds: float = Field(
        default=60.0, ge=0.1, le=3600, description="age at which a file is finished and visible to others, in seconds"
    )
    file_bytes: Bytes = Field(default=4 * MIB, ge=64 * KIB, description="size at which a file is finished, in bytes")
    buffer_bytes: Bytes = Field(
        default=4 * MIB,
        ge=64 * KIB,
        description="rows of a process that wait to be written, in bytes; rows beyond that are dropped, and counted",
    )
    limit: Bytes = Field(
        default=1024 * MIB,
        ge=1 * MIB,
        description="finished files of the node, in bytes; beyond that, the oldest are deleted",
    )


class TraceSettings(BaseModel):
    """[Traces](traces.md) of single messages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of publishes that are traced, as in 0.001; at most 100 a second of each acceptor; 0 traces "
        "none, and costs nothing",
    )
    endpoint: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="URL to which spans are sent by OTLP over HTTP, as in `http://localhost:4318/v1/traces`",
        json_schema_extra={"default_text": "none"},
    )


class RebalanceSettings(BaseModel):
    """Limits of plans of moves, and of applying them, unless their commands say otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low_rate: float = Field(
        default=1000.0,
        ge=0,
        description="messages in and out of a shard below which it needs no move, per second",
    )
    cpu_percent: int = Field(default=80, ge=1, le=100, description="use of a core that a move may raise a shard to")
    memory_percent: int = Field(
        default=80, ge=1, le=100, description="contents in memory that a move may raise a shard to, in percent"
    )
    store_percent: int = Field(
        default=80, ge=1, le=100, description="contents in its store that a move may raise a shard to, in percent"
    )
    coverage_percent: int = Field(
        default=80, ge=0, le=100, description="share of the samples of all queues that a plan needs, in percent"
    )
    moves_max: int = Field(default=100, ge=1, le=10_000, description="maximum number of moves of a plan")
    pins: Names = Field(
        default=(),
        description="queues that are never moved, as shell patterns of VHOST/QUEUE, separated by commas",
        json_schema_extra={"default_text": "none"},
    )
    plan_seconds: float = Field(default=3600.0, gt=0, description="how long a plan stays applicable, in seconds")
    moves_at_once: int = Field(default=1, ge=1, le=16, description="moves of a plan at a time")
    messages_per_second: int = Field(
        default=0, ge=0, description="average rate at which moves copy messages, per second; 0 is no limit"
    )
    bytes_per_second: Bytes = Field(
        default=0, ge=0, description="average rate at which moves copy contents, in bytes per second; 0 is no limit"
    )
    loop_lag_ms: float = Field(
        default=250.0,
        ge=0,
        description="event-loop lag (99th percentile) beyond which no move is begun, in milliseconds; 0 is no limit",
    )
    stopped_percent: float = Field(
        default=50.0, ge=0, le=100, description="held channels beyond which no move is begun, in percent; 0 is no limit"
    )
    fill_percent: float = Field(
        default=90.0,
        ge=0,
        le=100,
        description="how full the memory of a shard may be when a move is begun, in percent of its stop mark; 0 is no "
        "limit",
    )
    automatic: AutomaticSettings = AutomaticSettings()
