"""How much each channel publishes, counted as long as an operator asks: which producers would a new limit hold?

While it is counted every route has a meter; at any other time publishes cost nothing here.
"""

from __future__ import annotations

from typing import Any, Protocol

# Counting continues for this long after the last question.
KEPT_SECONDS = 10.0
# Pairs of channel and way counted separately; beyond that, all further ways of a channel are counted as one.
MOST = 10_000

Way = tuple[tuple[str, ...], str, tuple[int, ...], tuple[int, ...]]
"""Exchanges passed, routing key, ids of queues, and ids of the powerless queues among them."""
REST: Way = ((), "", (), ())


class Publishes(Protocol):
    """A channel that publishes."""

    def whose(self) -> dict[str, Any]:
        """Return the fields that identify the channel."""
        ...


class Counting:
    """Messages and body bytes that each channel has published by each way since `began`; None if nothing is counted.

    Times are seconds of the caller's clock.
    """

    def __init__(self) -> None:
        self.began: float | None = None
        self.ends = 0.0
        self.counts: dict[tuple[Publishes, Way], list[int]] = {}

    def ask(self, now: float) -> bool:
        """Start or prolong counting; return whether it starts."""
        begins = self.began is None
        if begins:
            self.began = now
        self.ends = now + KEPT_SECONDS
        return begins

    def is_over(self, now: float) -> bool:
        """Whether no question has come for `KEPT_SECONDS`: then forget the counts. True once."""
        if self.began is None or now < self.ends:
            return False
        self.began, self.counts = None, {}
        return True

    def meter(self, way: Way) -> Meter:
        """Return the meter of a route."""
        return Meter(self, way)

    def add(self, channel: Publishes, way: Way, count: int, nbytes: int) -> None:
        """Count messages and body bytes that a channel has published by a way."""
        entry = self.counts.get((channel, way))
        if entry is None:
            key = (channel, way if len(self.counts) < MOST else REST)
            entry = self.counts.setdefault(key, [0, 0])
        entry[0] += count
        entry[1] += nbytes

    def report(self, now: float) -> dict[str, Any]:
        """Return {seconds, publishes: [{connection, …, channel, exchanges, routing_key, queues, powerless (ids),
        messages, bytes}]}.
        """
        return {
            "seconds": now - (now if self.began is None else self.began),
            "publishes": [
                {
                    **channel.whose(),
                    "exchanges": list(exchanges), "routing_key": key, "queues": list(ids),
                    "powerless": list(powerless), "messages": count, "bytes": nbytes,
                }
                for (channel, (exchanges, key, ids, powerless)), (count, nbytes) in self.counts.items()
            ],
        }  # fmt: skip


class Meter:
    """Counts the publishes of one way."""

    __slots__ = ("counting", "way")

    def __init__(self, counting: Counting, way: Way) -> None:
        self.counting = counting
        self.way = way

    def spend(self, count: int, nbytes: int, channel: Publishes) -> None:
        """Count messages and body bytes that a channel sends."""
        self.counting.add(channel, self.way, count, nbytes)
