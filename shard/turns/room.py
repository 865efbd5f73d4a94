"""Whether a shard has room for published messages: the one place where its gate is closed and opened.

      open ──(memory used up, store full, or store in trouble)──▶ closed
      open ◀──(none of these)── closed

Causes come and go independently. Every change of the gate begins a new flow epoch, as it does for a queue
(shard/queue/saturation.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.limits.watermarks import Marks

# A store that is full without a limit has room again at this percentage of the size it had.
OVERFLOWN_PERCENT = 95
# Microseconds between log lines while the store is in trouble.
REMINDER = 60_000_000

MEMORY, PROCESSES, FULL, SPILL = "memory", "processes", "full", "spill"
RESOURCES = (MEMORY, PROCESSES, FULL, SPILL)
REASONS = {
    MEMORY: "its share of the node's memory is used up",
    PROCESSES: "the node's processes use up its memory: {share}",
    FULL: "its store is full: {share}",
    SPILL: "its spill is full: {share}",
}
UNWRITTEN, UNFLUSHED, DISK = "unwritten", "unflushed", "disk"
TROUBLES = {
    UNWRITTEN: "its store cannot be written",
    UNFLUSHED: "its store cannot be flushed to the disk",
    DISK: "the disk is full, its last room is for acks",
}
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


class News(NamedTuple):
    """A cause begins, ends, or lasts (`again`). `reason` is the text for clients, `seconds` how long the cause has
    lasted.
    """

    cause: str
    begins: bool
    again: bool
    reason: str
    seconds: float


class Use(NamedTuple):
    """How near a resource is to its stop mark: thousandths of the way from its resume mark; 0 at or below that mark."""

    thousandths: int
    resource: str


NOT_NEAR = Use(0, MEMORY)


class Room:
    """The gate of one shard. `since` is when it last changed, in microseconds since 1970, as all times here.

    `marks` are the marks of each resource (`RESOURCES`), in bytes; `used` is the amount in use. `causes` are the
    reasons why the gate is closed: for each the text for clients, and since when.
    """

    def __init__(self, marks: Mapping[str, Marks], now: int, epoch: int = 0) -> None:
        """A resource without marks has no limit. `epoch` is the last flow epoch used before."""
        self.limits = dict(marks)
        self.marks = dict(marks)
        self.used: dict[str, int] = {}
        self.saturated = False
        self.epoch = epoch
        self.since = now
        self.causes: dict[str, tuple[str, int]] = {}
        self._reminded = 0
        self._news: list[News] = []

    @property
    def reason(self) -> str:
        """Why the gate is closed; "" while it is open."""
        return "; ".join(text for text, _ in self.causes.values()) if self.causes else ""

    def limit(self, marks: Mapping[str, Marks], now: int) -> bool:
        """Set the marks; return whether the gate changed. Use above the marks holds all producers until it has
        fallen.
        """
        self.limits = dict(marks)
        self.marks = dict(marks)
        was = self.saturated
        for resource, nbytes in list(self.used.items()):
            self.set_use(resource, nbytes, now)
        return self.saturated != was

    def set_use(self, resource: str, nbytes: int, now: int) -> bool:
        """So many bytes of a resource are in use, or are about to be; return whether the gate changed."""
        self.used[resource] = nbytes
        marks = self.marks[resource]
        if marks.saturated(resource in self.causes, 0, nbytes):
            return self._set(resource, REASONS[resource].format(share=share(nbytes, marks.stop_bytes)), now)
        self.marks[resource] = self.limits[resource]
        return self._clear(resource, now)

    def store_overflows(self, nbytes: int, now: int) -> bool:
        """The store cannot grow though its limit is not reached; return whether the gate changed."""
        limit, stop = self.limits[FULL], max(nbytes - 1, 1)
        resume = stop * limit.resume_bytes // limit.stop_bytes if limit.stop_bytes else stop * OVERFLOWN_PERCENT // 100
        self.marks[FULL] = Marks(0, 0, stop, resume)
        return self.set_use(FULL, nbytes, now)

    def is_scarce(self, resource: str) -> bool:
        """Whether the use of a resource would keep a gate closed that is closed for it."""
        return 0 < self.marks[resource].resume_bytes < self.used.get(resource, 0)

    def nearest(self) -> Use:
        """The resource that is nearest to its stop mark."""
        nearest = NOT_NEAR
        for resource, nbytes in self.used.items():
            marks = self.marks[resource]
            if nbytes > marks.resume_bytes and marks.stop_bytes:
                way = max(marks.stop_bytes - marks.resume_bytes, 1)
                thousandths = min(1000 * (nbytes - marks.resume_bytes) // way, 1000)
                if thousandths > nearest.thousandths:
                    nearest = Use(thousandths, resource)
        return nearest

    def store_fails(self, trouble: str, reason: str, now: int) -> bool:
        """The store is in trouble (one of TROUBLES), for that reason; return whether the gate changed."""
        text = f"{TROUBLES[trouble]}: {reason}" if reason else TROUBLES[trouble]
        if trouble not in self.causes:
            self._reminded = now
        elif now - self._reminded >= REMINDER:
            self._reminded = now
            self._news.append(News(trouble, True, True, text, (now - self.causes[trouble][1]) / 1e6))
        return self._set(trouble, text, now)

    def store_works(self, trouble: str, now: int) -> bool:
        """The trouble has ended, if there was any; return whether the gate changed."""
        return self._clear(trouble, now)

    def take_news(self) -> list[News]:
        """The news since the last call."""
        news, self._news = self._news, []
        return news

    def _set(self, cause: str, text: str, now: int) -> bool:
        since = now
        if cause in self.causes:
            since = self.causes[cause][1]
        else:
            self._news.append(News(cause, True, False, text, 0.0))
        self.causes[cause] = text, since
        return self._decide(now)

    def _clear(self, cause: str, now: int) -> bool:
        if cause not in self.causes:
            return False
        text, since = self.causes.pop(cause)
        self._news.append(News(cause, False, False, text, (now - since) / 1e6))
        return self._decide(now)

    def _decide(self, now: int) -> bool:
        saturated = bool(self.causes)
        if saturated == self.saturated:
            return False
        self.saturated = saturated
        self.epoch += 1
        self.since = now
        return True


def share(nbytes: int, limit: int) -> str:
    """ "79.5 of 80 GiB", in the unit of the limit."""
    size, unit = next((size, unit) for size, unit in UNITS if limit >= size or size == 1)
    return f"{nbytes / size:.4g} of {limit / size:.4g} {unit}"
