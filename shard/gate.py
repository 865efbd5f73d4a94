"""The gate of a shard, before all its queues: in the gauges, where acceptors look, in their turns and in the log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.gauges import Gauges
from penstock.logs import get_logger
from penstock.settings import Settings
from penstock.watermarks import Marks
from shard.room import FULL, MEMORY, TROUBLES, News, Room

log = get_logger()

BEGINS = {MEMORY: "memory limit reached", FULL: "store limit reached"}
ENDS = {MEMORY: "memory has room again", FULL: "store has room again"}


class Gate:
    """The `room` of one shard, and who is told of it: `broadcast` takes the gate's id, saturated, epoch."""

    def __init__(
        self, index: int, gauges: Gauges, settings: Settings, now: int, broadcast: Callable[[int, bool, int], None]
    ) -> None:
        self.index = index
        self.gauges = gauges
        self.broadcast = broadcast
        limit = settings.memory_limit // settings.shards
        marks = Marks(0, 0, limit * settings.flow.stop_percent // 100, limit * settings.flow.resume_percent // 100)
        gauges.queue_open(index, 0, "", "", now)
        self.room = Room(marks, settings.store.limit // settings.shards, now, gauges.flow_epoch(index))
        self.weight = 0
        self.stored = 0
        self.told = ""
        self.write()

    def hold(self, weight: int, stored: int, now: int) -> None:
        """At the end of a turn: the octets that the shard has in memory, and those that its store has of contents."""
        if weight == self.weight and stored == self.stored:
            return
        self.weight, self.stored = weight, stored
        changed = self.room.holds_memory(weight, now)
        changed ^= self.room.holds_store(stored, now)
        self.tell(changed)

    def store_fails(self, trouble: str, reason: str, now: int) -> None:
        """The store is in trouble (one of shard.room.TROUBLES) for that reason."""
        self.tell(self.room.store_fails(trouble, reason, now))

    def store_works(self, trouble: str, now: int) -> None:
        """There is no such trouble any more, if there was."""
        if trouble in self.room.causes:
            self.tell(self.room.store_works(trouble, now))

    def store_overflows(self, now: int) -> None:
        """The store cannot have more though its limit is not reached."""
        self.tell(self.room.store_overflows(self.stored, now))

    def tell(self, changed: bool) -> None:
        self.write()
        if changed:
            self.broadcast(-1 - self.index, self.room.saturated, self.room.epoch)
        for news in self.room.take_news():
            self.log(news)

    def log(self, news: News) -> None:
        seconds = round(news.seconds, 3)
        if not news.begins:
            log.warning(ENDS.get(news.cause, "store works again"), reason=news.reason, seconds=seconds)
        elif news.again:
            log.error("store still in trouble", reason=news.reason, seconds=seconds)
        else:
            level = log.error if news.cause in TROUBLES else log.warning
            level(BEGINS.get(news.cause, "store in trouble"), reason=news.reason)

    def write(self) -> None:
        """Who sees the gate saturated finds the reason: it comes first and goes last."""
        room, marks = self.room, self.room.memory
        if room.saturated:
            self.explain()
        self.gauges.queue_write(
            self.index, 0, 0, self.weight, 0, 0, 0, 0, 0, 0, 0, room.epoch, room.saturated, room.since,
            0, 0, marks.stop_bytes, marks.resume_bytes,
        )  # fmt: skip
        self.explain()

    def explain(self) -> None:
        if self.room.reason != self.told:
            self.told = self.room.reason
            self.gauges.gate_explain(self.index, self.told)
