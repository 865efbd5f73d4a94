"""The console of a world: the real recorder, fed by virtual time, and what must be true of its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from console.recorder import Recorder, Usage
from penstock.memory.gauges import Gauges, QueueGauge
from penstock.telemetry.schema import DEPTH, VERSION, Table
from penstock.text.utf8 import readable
from router.model.records import Queue
from router.model.topology import Topology
from tests.penstock.telemetry.reading import check
from tests.simulator.joined.processes import Process

Key = tuple[str, str]
"""Vhost and name of a queue."""


class Counters(Recorder):
    """A recorder that keeps in `since_us` when the counters of the row began that it is about to write."""

    since_us = 0

    def record(self, slot: int, gauge: QueueGauge, queue: Queue, now: int) -> None:
        self.since_us = gauge.since_us
        super().record(slot, gauge, queue, now)


class Console(Process):
    """One incarnation of the console. `counted` has the messages published to each queue by its rows, for each time
    when its counters began: they begin anew with an incarnation of its shard.
    """

    def __init__(self, incarnation: int, gauges: Gauges, store_limit: int, since: int) -> None:
        topology = Topology()
        super().__init__("console", 0, incarnation, topology.load, topology.follow)
        self.gauges = gauges
        self.recorder = Counters(gauges, topology, self.put, store_limit, since)
        self.counted: Counter[tuple[Key, int]] = Counter()

    def put(self, table: Table, ts: int, row: dict[str, Any]) -> None:
        """Check a row against its declaration, and count it."""
        common = {"v": VERSION, "ts": ts, "node": "n", "epoch": 1, "writer": "w", "seq": 1, "rows_lost": 0}
        check(table.name, {**common, **readable(row)})
        if table is DEPTH:
            key = row["vhost"], row["queue"]
            self.counted[key, self.recorder.since_us] += row["n_published"]

    def record(self, now: int, usage: dict[int, Usage]) -> None:
        """Record the gauges, as each second, at `now` in microseconds."""
        self.recorder.record_all(now, usage)

    def is_right(self) -> None:
        """Check, when nothing has changed since it recorded: the last rows are those of the gauges, each message was
        counted once, and the shards' sums are those of their queues (docs/telemetry.md).
        """
        recorder = self.recorder
        for slot, id in recorder.at.items():
            known, gauge = recorder.known[id], self.gauges.queue_read(slot)
            assert known.gauge == gauge, f"the last row of {known.queue.name} is of {known.gauge}, not of {gauge}"
            key = known.queue.vhost, known.queue.name
            if known.gauge.since_us >= recorder.since:
                counted, published = self.counted[key, known.gauge.since_us], known.gauge.counters.published
                assert counted == published, f"{key}: {counted} messages are in rows, {published} were published"
        for shard, sums in enumerate(recorder.sums):
            gauges = [known.gauge for known in recorder.known.values() if known.queue.shard == shard]
            expected = len(gauges), sum(gauge.ready for gauge in gauges), sum(gauge.unacked for gauge in gauges)
            assert (sums.queues, sums.ready, sums.unacked) == expected, f"the sums of shard {shard} are wrong"
