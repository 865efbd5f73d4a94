"""The records of the gauges as they are read; `torn`: the writer died, or was stopped for long, while it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # reading a gauge needs no settings, which take a while to import
    from penstock.node.node import Role

UNSTARTED, STARTING, READY, DEAD = range(4)
STATE_NAMES = ("unstarted", "starting", "ready", "dead")


class Process(NamedTuple):
    """The record of a process: `docs/gauges.md#process`."""

    role: Role
    index: int  # type: ignore[assignment]  # hides the tuple's own `index`
    pid: int
    incarnation: int
    state: int
    started_us: int
    restarts: int
    torn: bool


class Counters(NamedTuple):
    """The counters of an acceptor: `docs/gauges.md#counters`."""

    connections: int
    channels: int
    held_channels: int
    parked_bytes: int
    paused_connections: int
    published: int
    delivered: int
    confirmed: int
    loop_turns: int
    ignoring_flow: int
    rung_withhold: int
    rung_park: int
    rung_pause: int
    rung_reject: int
    rung_close_channel: int
    rung_close_connection: int
    rung_hold_off: int
    refused: int
    lost_wakeups: int
    refused_connections: int
    torn: bool


class Measures(NamedTuple):
    """A process's measurements of itself: `docs/gauges.md#measures`."""

    loop_lag_p50_us: int
    loop_lag_p99_us: int
    commit_p99_us: int
    stored_bytes: int
    torn: bool


HELD_KINDS = ("queue", "limit", "rate", "shard", "vhost", "stop", "rebalance")
"""The kinds of causes that hold channels, as `acceptor.gates.cause.Kind` has them."""
DELAY_BOUNDS_US = (
    100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000
)  # fmt: skip
"""The upper bounds of the buckets of `FlowSums`."""


class FlowSums(NamedTuple):
    """Sums of an acceptor's flow control: `docs/gauges.md#flow`.

    `held_us` has a number for each of `HELD_KINDS`. Delays are the counts of the buckets of `DELAY_BOUNDS_US`, that of
    longer ones, and the sum of all delays in µs.
    """

    held_us: tuple[int, ...]
    charged_bytes: int
    stop_delays: tuple[int, ...]
    resume_delays: tuple[int, ...]
    torn: bool


class QueueCounters(NamedTuple):
    """The counters of a queue since `QueueGauge.since_us`, in messages and in bytes of their contents."""

    published: int
    delivered: int
    acked: int
    redelivered: int
    dropped: int
    published_bytes: int
    delivered_bytes: int


class QueueMarks(NamedTuple):
    """The marks of a queue, unchecked, unlike `penstock.limits.watermarks.Marks`: a torn record may mix two writes."""

    stop_count: int
    resume_count: int
    stop_bytes: int
    resume_bytes: int


class QueueGauge(NamedTuple):
    """The record of a queue or gate: `docs/gauges.md#queue`."""

    queue_id: int
    vhost: str
    name: str
    ready: int
    unacked: int
    ready_bytes: int
    unacked_bytes: int
    counters: QueueCounters
    consumers: int
    flow_epoch: int
    saturated: bool
    saturated_since_us: int
    marks: QueueMarks
    aside: bool
    lagging: bool
    over_count: int
    over_bytes: int
    peak_count: int
    peak_bytes: int
    whole_bytes: int
    lent_count: int
    lent_bytes: int
    reserve: int
    since_us: int
    torn: bool

    @property
    def drained(self) -> int:
        """Messages that have left the queue: acked, dropped, expired."""
        return self.counters.published - self.ready - self.unacked
