"""How much each session publishes, counted as long as somebody asks: whom would a limit hold that is not set yet?

Then routes have a meter that counts; at any other time publishes do not come by here.
"""

from __future__ import annotations

from typing import Any, Protocol

# Counting goes on for so long after the last question.
KEPT_SECONDS = 10.0
# Ways of sessions that are counted apart; what a session publishes beyond that is counted together.
MOST = 10_000

Way = tuple[tuple[str, ...], str, tuple[int, ...], tuple[int, ...]]
"""Exchanges that are passed, routing key, ids of queues, and of those among them that can do nothing to the publish."""
REST: Way = ((), "", (), ())


class Publishes(Protocol):
    """A channel that publishes."""

    def whose(self) -> dict[str, Any]:
        """What tells it from others."""
        ...


class Counting:
    """Messages and octets of bodies that each channel has published each way since `began`; None: nothing is counted.

    Times are seconds of the caller's clock.
    """

    def __init__(self) -> None:
        self.began: float | None = None
        self.ends = 0.0
        self.counts: dict[tuple[Publishes, Way], list[int]] = {}

    def ask(self, now: float) -> bool:
        """Count from now on, or go on counting; whether it begins now."""
        begins = self.began is None
        if begins:
            self.began = now
        self.ends = now + KEPT_SECONDS
        return begins

    def is_over(self, now: float) -> bool:
        """Nobody has asked for long: what was counted is forgotten. True once."""
        if self.began is None or now < self.ends:
            return False
        self.began, self.counts = None, {}
        return True

    def meter(self, way: Way) -> Meter:
        """For a route."""
        return Meter(self, way)

    def add(self, channel: Publishes, way: Way, count: int, octets: int) -> None:
        entry = self.counts.get((channel, way))
        if entry is None:
            key = (channel, way if len(self.counts) < MOST else REST)
            entry = self.counts.setdefault(key, [0, 0])
        entry[0] += count
        entry[1] += octets

    def told(self, now: float) -> dict[str, Any]:
        """{seconds, publishes: [{connection, …, channel, exchanges, routing_key, queues, powerless (ids), messages,
        octets}]}.
        """
        return {
            "seconds": now - (now if self.began is None else self.began),
            "publishes": [
                {
                    **channel.whose(),
                    "exchanges": list(exchanges), "routing_key": key, "queues": list(ids),
                    "powerless": list(powerless), "messages": count, "octets": octets,
                }
                for (channel, (exchanges, key, ids, powerless)), (count, octets) in self.counts.items()
            ],
        }  # fmt: skip


class Meter:
    """Counts what goes one way."""

    __slots__ = ("counting", "way")

    def __init__(self, counting: Counting, way: Way) -> None:
        self.counting = counting
        self.way = way

    def spend(self, count: int, octets: int, channel: Publishes) -> None:
        self.counting.add(channel, self.way, count, octets)
