"""Families of penstock's own: flow control, processes, shards, and what each queue has done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from console.metrics.family import QUEUE, Family, Kind, Sample, gauge, of_queues
from console.metrics.reading import Reading
from penstock.limits.watermarks import Marks
from penstock.memory.gauges import READY
from penstock.memory.records import HELD_KINDS

ACCEPTOR = ("acceptor",)
SHARD = ("shard",)
PROCESS = ("role", "index")
RUNGS = ("withhold", "park", "pause", "reject", "close_channel", "close_connection", "hold_off")
MICROSECOND = 1e-6


def _each(part: str, value: Callable[[Any], float | Sequence[int]]) -> Callable[[Reading], Iterator[Sample]]:
    """Return the samples of the members of a part of the reading, labelled with their numbers."""
    of = attrgetter(part)
    return lambda reading: (((str(index),), value(each)) for index, each in of(reading).items())


_of_acceptors = partial(_each, "counters")
_of_acceptor_measures = partial(_each, "acceptor_measures")
_of_flow = partial(_each, "flow")
_of_gates = partial(_each, "gates")
_of_shards = partial(_each, "measures")


def _rungs(reading: Reading) -> Iterator[Sample]:
    for index, each in reading.counters.items():
        for rung in RUNGS:
            yield (str(index), rung.replace("_", "-")), getattr(each, f"rung_{rung}")


def _in_flight(reading: Reading) -> Iterator[Sample]:
    for acceptor in range(reading.gauges.acceptors):
        for shard in reading.shards:
            yield (str(acceptor), str(shard)), reading.gauges.pair_in_flight(acceptor, shard)


def _held_seconds(reading: Reading) -> Iterator[Sample]:
    for index, each in reading.flow.items():
        for kind, held_us in zip(HELD_KINDS, each.held_us, strict=True):
            yield (str(index), kind), held_us * MICROSECOND


def _charged(reading: Reading) -> Iterator[Sample]:
    for index, each in reading.flow.items():
        yield (str(index), "parked"), reading.counters[index].parked_bytes
        yield (str(index), "unread_or_unfinished"), each.charged_bytes


def _up(reading: Reading) -> Iterator[Sample]:
    return (((each.role, str(each.index)), each.state == READY) for each in reading.processes)


def _restarts(reading: Reading) -> Iterator[Sample]:
    return (((each.role, str(each.index)), each.restarts) for each in reading.processes)


def _cpu(reading: Reading) -> Iterator[Sample]:
    return (((role, str(index)), usage.cpu_seconds) for (role, index), usage in reading.usage.items())


def _memory(reading: Reading) -> Iterator[Sample]:
    return (((role, str(index)), usage.memory) for (role, index), usage in reading.usage.items())


def _marks(nbytes: bool) -> Callable[[Reading], Iterator[Sample]]:
    """Return the samples of the marks that are set, in bytes or in messages."""

    def samples(reading: Reading) -> Iterator[Sample]:
        for queue in reading.queues:
            marks = queue.marks
            stop, resume = (marks.stop_bytes, marks.resume_bytes) if nbytes else (marks.stop_count, marks.resume_count)
            if stop:
                yield (queue.vhost, queue.name, "stop"), stop
                yield (queue.vhost, queue.name, "resume"), resume

    return samples


def _overshoot_bound(reading: Reading) -> Iterator[Sample]:
    for queue in reading.queues:
        if queue.marks.stop_count:
            count, _ = Marks(*queue.marks).overshoot_bound(reading.gauges.acceptors, queue.reserve)
            yield (queue.vhost, queue.name), count + queue.lent_count


FAMILIES = (
    gauge(
        "penstock_flow_saturated_queues", "queues that hold their producers",
        lambda reading: sum(queue.saturated for queue in reading.queues),
    ),
    Family(
        "penstock_flow_held_channels", Kind.GAUGE, ACCEPTOR, "channels held by at least one saturated queue",
        _of_acceptors(attrgetter("held_channels")),
    ),
    Family(
        "penstock_flow_paused_connections", Kind.GAUGE, ACCEPTOR, "connections whose sockets are read slowly",
        _of_acceptors(attrgetter("paused_connections")),
    ),
    Family(
        "penstock_flow_parked_bytes", Kind.GAUGE, ACCEPTOR, "contents of publishes that wait at the acceptor",
        _of_acceptors(attrgetter("parked_bytes")),
    ),
    Family(
        "penstock_flow_ignoring_connections", Kind.GAUGE, ACCEPTOR, "connections that publish on after their flow-ok",
        _of_acceptors(attrgetter("ignoring_flow")),
    ),
    Family(
        "penstock_flow_rungs_total", Kind.COUNTER, (*ACCEPTOR, "rung"), "channels that reached a rung of their ladder",
        _rungs,
    ),
    Family(
        "penstock_flow_refused_messages_total", Kind.COUNTER, ACCEPTOR, "publishes refused on the rung `reject`",
        _of_acceptors(attrgetter("refused")),
    ),
    Family(
        "penstock_flow_lost_wakeups_total", Kind.COUNTER, ACCEPTOR,
        "changes of queues with waiting producers whose broadcast never arrived; 0, but for a bug",
        _of_acceptors(attrgetter("lost_wakeups")),
    ),
    Family(
        "penstock_flow_held_seconds_total", Kind.COUNTER, (*ACCEPTOR, "cause"),
        "time that channels were held, all of them added up, by the kind of the cause", _held_seconds,
    ),
    Family(
        "penstock_flow_stop_latency_seconds", Kind.HISTOGRAM, ACCEPTOR,
        "from a shard's decision to stop producers until the acceptor has held those that wait there",
        _of_flow(attrgetter("stop_delays")),
    ),
    Family(
        "penstock_flow_resume_latency_seconds", Kind.HISTOGRAM, ACCEPTOR,
        "from a shard's decision to resume producers until the acceptor has admitted them",
        _of_flow(attrgetter("resume_delays")),
    ),
    Family(
        "penstock_flow_charged_bytes", Kind.GAUGE, (*ACCEPTOR, "kind"),
        "bytes charged to clients: publishes that wait; answers not read, unfinished bodies and transactions",
        _charged,
    ),
    Family(
        "penstock_flow_shard_saturated", Kind.GAUGE, SHARD, "1 while the shard holds the producers of all its queues",
        _of_gates(attrgetter("saturated")),
    ),
    Family(
        "penstock_shard_contents_bytes", Kind.GAUGE, SHARD, "contents that the shard has in memory",
        _of_gates(attrgetter("ready_bytes")),
    ),
    Family(
        "penstock_shard_stored_bytes", Kind.GAUGE, SHARD, "contents in the shard's store",
        _of_shards(attrgetter("stored_bytes")),
    ),
    Family(
        "penstock_shard_loop_lag_p50_seconds", Kind.GAUGE, SHARD, "lag of its loop in the last seconds, median",
        _of_shards(lambda each: each.loop_lag_p50_us * MICROSECOND),
    ),
    Family(
        "penstock_shard_loop_lag_p99_seconds", Kind.GAUGE, SHARD,
        "lag of its loop in the last seconds, 99th percentile",
        _of_shards(lambda each: each.loop_lag_p99_us * MICROSECOND),
    ),
    Family(
        "penstock_acceptor_loop_lag_p50_seconds", Kind.GAUGE, ACCEPTOR, "lag of its loop in the last seconds, median",
        _of_acceptor_measures(lambda each: each.loop_lag_p50_us * MICROSECOND),
    ),
    Family(
        "penstock_acceptor_loop_lag_p99_seconds", Kind.GAUGE, ACCEPTOR,
        "lag of its loop in the last seconds, 99th percentile",
        _of_acceptor_measures(lambda each: each.loop_lag_p99_us * MICROSECOND),
    ),
    Family(
        "penstock_shard_commit_p99_seconds", Kind.GAUGE, SHARD,
        "duration of the last commits of its store, 99th percentile; 0 if there was none",
        _of_shards(lambda each: each.commit_p99_us * MICROSECOND),
    ),
    Family(
        "penstock_in_flight_bytes", Kind.GAUGE, (*ACCEPTOR, *SHARD), "turns under way from an acceptor to a shard",
        _in_flight,
    ),
    Family(
        "penstock_connections_refused_total", Kind.COUNTER, ACCEPTOR, "connections refused for a limit of connections",
        _of_acceptors(attrgetter("refused_connections")),
    ),
    Family("penstock_process_up", Kind.GAUGE, PROCESS, "1 if the process is ready", _up),
    Family("penstock_process_restarts_total", Kind.COUNTER, PROCESS, "restarts of the process", _restarts),
    Family(
        "penstock_process_cpu_seconds_total", Kind.COUNTER, PROCESS, "processor time of this incarnation", _cpu
    ),
    Family(
        "penstock_process_memory_bytes", Kind.GAUGE, PROCESS,
        "private memory of the process, pages that it shares since a fork included", _memory,
    ),
)  # fmt: skip
"""Of the node."""

OF_QUEUES = (
    Family(
        "penstock_queue_saturated", Kind.GAUGE, QUEUE, "1 while the queue holds its producers",
        of_queues(attrgetter("saturated")),
    ),
    Family(
        "penstock_queue_mark_messages", Kind.GAUGE, (*QUEUE, "mark"), "stop and resume mark, if set", _marks(False)
    ),
    Family("penstock_queue_mark_bytes", Kind.GAUGE, (*QUEUE, "mark"), "stop and resume mark, if set", _marks(True)),
    Family(
        "penstock_queue_overshoot_messages", Kind.GAUGE, QUEUE,
        "the furthest that the depth has been above the stop mark since that was set",
        of_queues(attrgetter("over_count")),
    ),
    Family(
        "penstock_queue_overshoot_bound_messages", Kind.GAUGE, QUEUE, "the bound of the overshoot", _overshoot_bound
    ),
    *(
        Family(
            f"penstock_queue_{name}_total", Kind.COUNTER, QUEUE, meaning, of_queues(attrgetter(f"counters.{field}")),
        )
        for name, meaning, field in (
            ("published_messages", "messages enqueued", "published"),
            ("delivered_messages", "messages delivered", "delivered"),
            ("acknowledged_messages", "messages acknowledged, or sent without", "acked"),
            ("redelivered_messages", "messages delivered again", "redelivered"),
            ("dropped_messages", "messages gone otherwise: by a limit, expired, purged", "dropped"),
            ("published_bytes", "contents of messages enqueued", "published_bytes"),
            ("delivered_bytes", "contents of messages delivered", "delivered_bytes"),
        )
    ),
)  # fmt: skip
"""Of each queue."""
