"""Changes of flow control as a numbered stream of events, found by comparing one look at the node with the last.

    snapshot  {now, held, queues, stops}      the whole, for who begins or has missed too much
    held      a held channel, new or changed  (its times alone change nothing)
    released  {connection, channel, vhost, user, held_seconds}
    queue     {vhost, name, depth, stop, resume, saturated}, of a queue that holds producers, at each change
    stop      {stops}, when stops by hand were made or lifted

Every event has `seq`, which increases by one, and `at` (milliseconds since 1970). The last `KEPT` can be read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

Facts = dict[str, Any]
Place = tuple[str, int]
"""Connection and channel."""

KEPT = 1000
TIMES = frozenset(("held_seconds", "parked_bytes", "parked_bytes_connection"))
"""Fields of a held channel whose change is no event."""


class Event(NamedTuple):
    """One change; `vhost` is where it happened, None for one that concerns all."""

    seq: int
    kind: str
    vhost: str | None
    facts: Facts


class Feed:
    """The present state, and the last changes that led to it."""

    def __init__(self) -> None:
        self.seq = 0
        self._held: dict[Place, Facts] = {}
        self._queues: dict[tuple[str, str], Facts] = {}
        self._stops: list[Facts] = []
        self._kept: deque[Event] = deque(maxlen=KEPT)

    def snapshot(self, at: int) -> Facts:
        """Return the present state."""
        return {
            "seq": self.seq,
            "now": at,
            "held": list(self._held.values()),
            "queues": list(self._queues.values()),
            "stops": self._stops,
        }

    def since(self, seq: int) -> list[Event] | None:
        """Return the events after one; None if some of them are kept no more, or there was no such event."""
        if seq == self.seq:
            return []
        if not self._kept or not self._kept[0].seq - 1 <= seq < self.seq:
            return None
        return [event for event in self._kept if event.seq > seq]

    def update(self, held: Iterable[Facts], queues: Iterable[Facts], stops: list[Facts], at: int) -> list[Event]:
        """Take another look at the node; return the changes since the last one."""
        before = self.seq
        now_held = {(each["connection"], each["channel"]): each for each in held}
        for place, channel in self._held.items():
            if place not in now_held:
                facts = {name: channel[name] for name in ("connection", "channel", "vhost", "user", "held_seconds")}
                self._add("released", channel["vhost"], facts, at)
        for place, channel in now_held.items():
            known = self._held.get(place)
            if known is None or _lasting(known) != _lasting(channel):
                self._add("held", channel["vhost"], channel, at)
        self._held = now_held
        now_queues = {(each["vhost"], each["name"]): each for each in queues}
        for name in self._queues.keys() - now_queues.keys():
            self._add("queue", name[0], {**self._queues[name], "saturated": False}, at)
        for name, queue in now_queues.items():
            if self._queues.get(name) != queue:
                self._add("queue", queue["vhost"], queue, at)
        self._queues = now_queues
        if _numbers(self._stops) != _numbers(stops):
            self._add("stop", None, {"stops": stops}, at)
        self._stops = stops
        return [event for event in self._kept if event.seq > before]

    def _add(self, kind: str, vhost: str | None, facts: Facts, at: int) -> None:
        self.seq += 1
        self._kept.append(Event(self.seq, kind, vhost, {"seq": self.seq, "at": at, **facts}))


def _numbers(stops: list[Facts]) -> list[int]:
    """Return the numbers of stops: one that replaces another has a new number, and nothing else of a stop changes."""
    return [stop["number"] for stop in stops]


def _lasting(channel: Facts) -> Facts:
    """Return the facts of a held channel without those that change all the time."""
    rung = channel["rung"]
    return {
        **{name: value for name, value in channel.items() if name not in TIMES},
        "rung": None if rung is None else rung["name"],
        "causes": [(cause["kind"], cause.get("id"), cause.get("number")) for cause in channel["causes"]],
    }
