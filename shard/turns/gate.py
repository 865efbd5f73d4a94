"""The gate of a shard, before all its queues: published in the gauges, in turns to acceptors, and in the log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.limits.watermarks import Marks
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings
from shard.turns.room import FULL, MEMORY, PROCESSES, RESOURCES, SPILL, TROUBLES, News, Room

log = get_logger()

BEGINS = {
    MEMORY: "memory limit reached",
    PROCESSES: "process memory limit reached",
    FULL: "store limit reached",
    SPILL: "spill limit reached",
}
ENDS = {
    MEMORY: "memory has room again",
    PROCESSES: "process memory has room again",
    FULL: "store has room again",
    SPILL: "spill has room again",
}


class Gate:
    """The `room` of one shard, with its publication. `broadcast` takes the gate's id, saturated, epoch."""

    def __init__(
        self, index: int, gauges: Gauges, settings: Settings, now: int, broadcast: Callable[[int, bool, int], None]
    ) -> None:
        self.index = index
        self.gauges = gauges
        self.broadcast = broadcast
        gauges.queue_open(index, 0, "", "", now)
        self.room = Room(marks_of(settings, settings.shards), now, gauges.flow_epoch(index))
        self.weight = 0
        self.stored = 0
        self.spilled = 0
        self.explained = ""
        self.write()

    def limit(self, marks: dict[str, Marks], now: int) -> None:
        """Set the shard's share of the node's limits."""
        self.publish(self.room.limit(marks, now))

    def update_use(self, weight: int, stored: int, spilled: int, now: int) -> None:
        """At the end of a turn: the bytes that the shard uses in memory, in its store, and in its spill."""
        if weight == self.weight and stored == self.stored:
            return
        self.weight = weight
        changed = self.room.set_use(MEMORY, weight, now)
        if stored != self.stored:
            self.stored = stored
            changed ^= self.room.set_use(FULL, stored, now)
        if spilled != self.spilled:
            self.spilled = spilled
            changed ^= self.room.set_use(SPILL, spilled, now)
        self.publish(changed)

    def update_processes(self, nbytes: int, now: int) -> None:
        """From time to time: the private memory of all processes of the node, in bytes."""
        self.publish(self.room.set_use(PROCESSES, nbytes, now))

    def store_fails(self, trouble: str, reason: str, now: int) -> None:
        """The store is in trouble (one of shard.turns.room.TROUBLES), for that reason."""
        self.publish(self.room.store_fails(trouble, reason, now))

    def store_works(self, trouble: str, now: int) -> None:
        """The trouble has ended, if there was any."""
        if trouble in self.room.causes:
            self.publish(self.room.store_works(trouble, now))

    def store_overflows(self, now: int) -> None:
        """The store cannot grow though its limit is not reached."""
        self.publish(self.room.store_overflows(self.stored, now))

    def publish(self, changed: bool) -> None:
        """Write the gate to the gauges, broadcast a change of state and log the news."""
        self.write()
        if changed:
            self.broadcast(-1 - self.index, self.room.saturated, self.room.epoch)
        for news in self.room.take_news():
            self.log(news)

    def log(self, news: News) -> None:
        """Log that a cause began, ended or lasts."""
        seconds = round(news.seconds, 3)
        if not news.begins:
            log.warning(ENDS.get(news.cause, "store works again"), reason=news.reason, seconds=seconds)
        elif news.again:
            log.error("store still in trouble", reason=news.reason, seconds=seconds)
        else:
            level = log.error if news.cause in TROUBLES else log.warning
            level(BEGINS.get(news.cause, "store in trouble"), reason=news.reason)

    def write(self) -> None:
        """Write the gate to the gauges. The reason is written first and removed last, so a saturated gate always has
        one.
        """
        room, marks, use = self.room, self.room.marks[MEMORY], self.room.nearest()
        if room.saturated:
            self.explain()
        self.gauges.queue_write(
            self.index, use.thousandths, 0, self.weight, 0, 0, 0, 0, 0, 0, RESOURCES.index(use.resource), room.epoch,
            room.saturated, room.since, 0, 0, marks.stop_bytes, marks.resume_bytes,
        )  # fmt: skip
        self.explain()

    def explain(self) -> None:
        """Write the reason to the gauges if it has changed."""
        reason = self.room.reason
        if reason != self.explained:
            self.explained = reason
            self.gauges.gate_explain(self.index, self.explained)


def memory_of(settings: Settings, shards: int) -> tuple[int, int]:
    """The memory of one of `shards` shards for contents, and its resume mark, in bytes."""
    limit = settings.memory_limit // shards
    return limit, limit * settings.memory.resume_percent // 100


def marks_of(settings: Settings, shards: int) -> dict[str, Marks]:
    """The marks of one of `shards` shards: its share of the node's limits. The memory of processes is not divided."""
    memory, store = settings.memory, settings.store
    return {
        MEMORY: _marks(settings.memory_limit // shards, memory.stop_percent, memory.resume_percent),
        PROCESSES: _marks(memory.process_limit, memory.stop_percent, memory.resume_percent),
        FULL: _marks(store.limit // shards, store.stop_percent, store.resume_percent),
        SPILL: _marks(store.spill_limit // shards, store.stop_percent, store.resume_percent),
    }


def _marks(limit: int, stop_percent: int, resume_percent: int) -> Marks:
    return Marks(0, 0, limit * stop_percent // 100, limit * resume_percent // 100)
