"""Records the gauges, read each second, as rows of depth and shard.

A queue that was written since the previous reading gets a row. One that was not gets a row every `STANDING_READINGS`
readings if it has messages, and every `QUIET_READINGS` in any case, spread over the readings. When a queue changes that
had no row at the previous reading, it first gets a row for that: so a row is about one second, or about a time in which
nothing happened.

The counters of a queue state since when they count: they continue when the queue moves, and restart with the next
incarnation of its shard. Counters older than this recorder are counted from their first reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from mmap import mmap
from typing import NamedTuple

from penstock.memory.gauges import READY, Gauges, QueueCounters, QueueGauge
from penstock.telemetry.rows import Put
from penstock.telemetry.schema import DEPTH, SHARD
from router.model.records import Queue
from router.model.topology import Topology

STANDING_READINGS = 10
QUIET_READINGS = 60

NOTHING = QueueCounters(0, 0, 0, 0, 0, 0, 0)


class Known(NamedTuple):
    """The last row of a queue: its time (microseconds of the node's clock), slot, gauge and queue."""

    ts: int
    slot: int
    gauge: QueueGauge
    queue: Queue


class Usage(NamedTuple):
    """The kernel's figures for a process: CPU seconds since its start, and bytes of resident memory."""

    pid: int
    cpu: float
    rss: int


class ShardSums:
    """The sums of one shard: the present depths of its queues, and their counts since its last row."""

    __slots__ = ("counts", "queues", "ready", "unacked")

    def __init__(self) -> None:
        self.queues = self.ready = self.unacked = 0
        self.counts = NOTHING

    def add(self, gauge: QueueGauge, sign: int) -> None:
        """Add a queue to the depths (`sign` 1), or subtract it (-1)."""
        self.queues += sign
        self.ready += sign * gauge.ready
        self.unacked += sign * gauge.unacked


class Recorder:
    """One incarnation of the recorder. `since`: counters that began then or later are counted from 0.

    Queues are `known` by id; `at` has the ids by slot. Queues in `closed` have lost their slot: they are gone, or have
    moved.
    """

    def __init__(self, gauges: Gauges, topology: Topology, put: Put, store_limit: int, since: int) -> None:
        self.gauges = gauges
        self.topology = topology
        self.put = put
        self.store_limit = store_limit
        self.since = since
        self.seen = memoryview(mmap(-1, 8 * gauges.slots)).cast("Q")  # memory comes with the slots that are used
        self.known: dict[int, Known] = {}
        self.at: dict[int, int] = {}
        self.closed: set[int] = set()
        self.standing: list[set[int]] = [set() for _ in range(QUIET_READINGS)]
        self.unknown: set[int] = set()
        self.sums = [ShardSums() for _ in range(gauges.shards)]
        self.shards: dict[int, tuple[int, Usage]] = {}
        self.readings = 0
        self.last = since

    def record_all(self, now: int, usage: dict[int, Usage]) -> None:
        """Record the gauges at `now`, in microseconds of the node's clock; `usage` is that of the live shards."""
        for slot in self.to_read():
            gauge = self.gauges.queue_read(slot)
            if slot in self.at and (gauge is None or gauge.queue_id != self.at[slot]):
                self.close_slot(slot)
            if gauge is None or gauge.torn:
                continue
            queue = self.topology.queue_by_id(gauge.queue_id)
            if queue is None:
                self.unknown.add(slot)  # the topology has not come yet, or the queue is being deleted
            else:
                self.record(slot, gauge, queue, now)
        for id in [id for id in self.closed if self.topology.queue_by_id(id) is None]:
            self.forget(id)
        for shard in range(self.gauges.shards):
            self.record_shard(shard, usage.get(shard), self.store_limit // max(len(usage), 1), now)
        self.readings += 1
        self.last = now

    def to_read(self) -> Iterable[int]:
        """Return the slots whose queues are due for a row."""
        slots = {*self.gauges.queues_written(self.seen), *self.unknown}
        self.unknown.clear()
        for phase in range(self.readings % STANDING_READINGS, QUIET_READINGS, STANDING_READINGS):
            all_of_them = phase == self.readings % QUIET_READINGS
            slots.update(
                slot for slot in self.standing[phase] if all_of_them or has_messages(self.known[self.at[slot]].gauge)
            )
        return slots

    def record(self, slot: int, gauge: QueueGauge, queue: Queue, now: int) -> None:
        """Write the row of a queue, and before it one for the end of a quiet time."""
        id = gauge.queue_id
        known = self.known.get(id)
        if known is None:
            seen = gauge.since_us >= self.since
            counted_from, begun = (None, gauge.since_us) if seen else (gauge, now)
        elif gauge.since_us < known.gauge.since_us:
            return  # what a dead shard has left of it: the queue has begun anew elsewhere
        else:
            if known.ts < self.last and gauge != known.gauge:
                self.write(known.gauge, known.queue, NOTHING, self.last, known.ts)
                known = known._replace(ts=self.last)
            counted_from, begun = known.gauge if gauge.since_us == known.gauge.since_us else None, known.ts
            self.sums[known.queue.shard].add(known.gauge, -1)
            if known.slot != slot:
                self.close_slot(known.slot)
        counts = difference(gauge, counted_from)
        self.write(gauge, queue, counts, now, begun)
        sums = self.sums[queue.shard]
        sums.add(gauge, 1)
        sums.counts = QueueCounters._make(map(int.__add__, sums.counts, counts))
        self.known[id] = Known(now, slot, gauge, queue)
        self.at[slot] = id
        self.closed.discard(id)
        self.standing[slot % QUIET_READINGS].add(slot)

    def close_slot(self, slot: int) -> None:
        """Close the slot that a queue has left."""
        id = self.at.pop(slot, None)
        if id is not None:
            self.standing[slot % QUIET_READINGS].discard(slot)
            self.closed.add(id)

    def forget(self, id: int) -> None:
        """Drop a queue that is gone."""
        self.closed.discard(id)
        known = self.known.pop(id)
        self.sums[known.queue.shard].add(known.gauge, -1)

    def write(self, gauge: QueueGauge, queue: Queue, counts: QueueCounters, now: int, begun: int) -> None:
        """Write a row of depth, for the time from `begun` to `now`."""
        marks = gauge.marks
        self.put(
            DEPTH,
            now,
            {
                "vhost": queue.vhost,
                "queue": queue.name,
                "shard": queue.shard,
                "ready": gauge.ready,
                "unacked": gauge.unacked,
                "ready_bytes": gauge.ready_bytes,
                "unacked_bytes": gauge.unacked_bytes,
                "n_published": counts.published,
                "n_delivered": counts.delivered,
                "n_acked": counts.acked,
                "n_redelivered": counts.redelivered,
                "n_dropped": counts.dropped,
                "interval_ms": milliseconds(begun, now),
                "consumers": gauge.consumers,
                "stop_count": marks.stop_count,
                "resume_count": marks.resume_count,
                "stop_bytes": marks.stop_bytes,
                "resume_bytes": marks.resume_bytes,
                "saturated": gauge.saturated,
                "flow_epoch": gauge.flow_epoch,
                "policy": queue.policy,
                "published_bytes": counts.published_bytes,
                "delivered_bytes": counts.delivered_bytes,
                "whole_bytes": gauge.whole_bytes,
            },
        )

    def record_shard(self, shard: int, usage: Usage | None, store_limit: int, now: int) -> None:
        """Write the row of a shard, if it serves."""
        gate, place = self.gauges.queue_read(shard), self.gauges.process_read("shard", shard)
        measures, sums = self.gauges.measures_read("shard", shard), self.sums[shard]
        if usage is None or gate is None or place.state != READY or gate.torn or place.torn or measures.torn:
            return
        ts, before = self.shards.get(shard, (self.since, None))
        self.shards[shard] = now, usage
        if before is not None and before.pid == usage.pid:
            cores = per_second(usage.cpu - before.cpu, ts, now)
        else:
            cores = per_second(usage.cpu, place.started_us, now)
        counts = sums.counts
        self.put(
            SHARD,
            now,
            {
                "shard": shard,
                "pid": usage.pid,
                "incarnation": place.incarnation,
                "cpu": cores,
                "rss": usage.rss,
                "loop_lag_p50_us": measures.loop_lag_p50_us,
                "loop_lag_p99_us": measures.loop_lag_p99_us,
                "msgs_in": counts.published,
                "msgs_out": counts.delivered,
                "bytes_in": counts.published_bytes,
                "bytes_out": counts.delivered_bytes,
                "interval_ms": milliseconds(ts, now),
                "commit_us_p99": measures.commit_p99_us or None,
                "store_used": measures.stored_bytes,
                "store_limit": store_limit,
                "memory_used": gate.ready_bytes,
                "memory_limit": gate.marks.stop_bytes,
                "queues": sums.queues,
                "ready": sums.ready,
                "unacked": sums.unacked,
                "saturated": gate.saturated,
            },
        )
        sums.counts = NOTHING


def has_messages(gauge: QueueGauge) -> bool:
    """Whether a queue has messages."""
    return gauge.ready > 0 or gauge.unacked > 0


def difference(now: QueueGauge, before: QueueGauge | None) -> QueueCounters:
    """Return the counts between two readings, at least 0: a counter may fall when a delivery is undone."""
    if before is None:
        return now.counters
    pairs = zip(now.counters, before.counters, strict=True)
    return QueueCounters._make(max(after - earlier, 0) for after, earlier in pairs)


def per_second(seconds: float, begun: int, ended: int) -> float:
    """Return the seconds of work per second between two times in microseconds."""
    return round(seconds * 1_000_000 / max(ended - begun, 1_000), 4)


def milliseconds(begun: int, ended: int) -> int:
    """Return the milliseconds between two times in microseconds; 0 if the clock was set back."""
    return max(round((ended - begun) / 1000), 0)
