"""Whether a shard has room for what producers send: the one place where its gate is closed and opened.

      open ──(memory used up, store full, or store in trouble)──▶ closed
      open ◀──(none of these)── closed

Each cause comes and goes by itself. Every change of the gate begins a new flow epoch, as that of a queue does
(shard/saturation.py).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.watermarks import Marks

# A store that is full has room again at so many percent of its limit.
STORE_RESUME_PERCENT = 95
# While the store is in trouble that is said again after so many microseconds.
REMINDER = 60_000_000

MEMORY, FULL, UNWRITTEN, UNFLUSHED = "memory", "full", "unwritten", "unflushed"
TROUBLES = {UNWRITTEN: "its store cannot be written", UNFLUSHED: "its store cannot be flushed to the disk"}
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


class News(NamedTuple):
    """A cause begins, ends, or (`again`) lasts. `reason` is as clients are told it, `seconds` for how long."""

    cause: str
    begins: bool
    again: bool
    reason: str
    seconds: float


class Room:
    """The gate of one shard. `since` is when it changed last, in microseconds since 1970 as all times here.

    `causes` are why it is closed: for each the text that clients are told, and since when.
    """

    def __init__(self, memory: Marks, store_limit: int, now: int, epoch: int = 0) -> None:
        """`store_limit` in octets of contents, 0 for no limit; `epoch` the one to go on from."""
        self.memory = memory
        self.store_limit = store_limit
        self.store_marks = _store_marks(store_limit)
        self.saturated = False
        self.epoch = epoch
        self.since = now
        self.causes: dict[str, tuple[str, int]] = {}
        self._reminded = 0
        self._news: list[News] = []

    @property
    def reason(self) -> str:
        """Why the gate is closed, "" while it is open."""
        return "; ".join(text for text, _ in self.causes.values())

    def holds_memory(self, octets: int, now: int) -> bool:
        """The shard has so much in memory; whether the gate changed."""
        if self.memory.saturated(MEMORY in self.causes, 0, octets):
            return self._set(MEMORY, "its share of the node's memory is used up", now)
        return self._clear(MEMORY, now)

    def holds_store(self, octets: int, now: int) -> bool:
        """The store has so much, or is about to; whether the gate changed."""
        if self.store_marks.saturated(FULL in self.causes, 0, octets):
            return self._set(FULL, f"its store is full: {share(octets, self.store_marks.stop_bytes)}", now)
        self.store_marks = _store_marks(self.store_limit)
        return self._clear(FULL, now)

    def store_overflows(self, octets: int, now: int) -> bool:
        """The store cannot have more though its limit is not reached; whether the gate changed."""
        self.store_marks = _store_marks(max(octets - 1, 1))
        return self.holds_store(octets, now)

    def store_fails(self, trouble: str, reason: str, now: int) -> bool:
        """The store is in trouble (one of TROUBLES) for that reason; whether the gate changed."""
        text = f"{TROUBLES[trouble]}: {reason}"
        if trouble not in self.causes:
            self._reminded = now
        elif now - self._reminded >= REMINDER:
            self._reminded = now
            self._news.append(News(trouble, True, True, text, (now - self.causes[trouble][1]) / 1e6))
        return self._set(trouble, text, now)

    def store_works(self, trouble: str, now: int) -> bool:
        """That trouble is over, if there was any; whether the gate changed."""
        return self._clear(trouble, now)

    def take_news(self) -> list[News]:
        """What there is to say since the last call."""
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


def share(octets: int, limit: int) -> str:
    """ "79.5 of 80 GiB", in the unit of the limit."""
    size, unit = next((size, unit) for size, unit in UNITS if limit >= size or size == 1)
    return f"{octets / size:.4g} of {limit / size:.4g} {unit}"


def _store_marks(limit: int) -> Marks:
    return Marks(0, 0, limit, limit * STORE_RESUME_PERCENT // 100)
