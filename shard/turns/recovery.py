"""The start of a later incarnation of a shard: it must know all unacked messages before it delivers.

Each acceptor that was there when the shard began reports its unacked messages in its first turn (Hold); its later
turns, requests among them, wait until all acceptors have reported. An acceptor that dies is not waited for, and none is
waited for longer than `PATIENCE_US`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.memory.gauges import READY, STARTING, Gauges
from penstock.node.logs import get_logger
from shard.turns.link import Link, incarnation_of

log = get_logger()

PATIENCE_US = 5_000_000

Incarnation = tuple[int, int]
"""Index and incarnation of an acceptor."""


class Recovery:
    """The acceptors waited for, and until when (microseconds since 1970); `reported` are the links of those that
    reported.
    """

    def __init__(self, acceptors: Iterable[Incarnation], now: int) -> None:
        self.awaited = set(acceptors)
        self.reported: set[Link] = set()
        self.deadline = now + PATIENCE_US

    def on_hold(self, link: Link) -> None:
        """An acceptor has reported its unacked messages."""
        self.reported.add(link)
        self.awaited.discard(incarnation_of(link.identity)[1:])

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process has died: its incarnations up to that one are not waited for."""
        if role == "acceptor":
            self.awaited = {one for one in self.awaited if one[0] != index or one[1] > incarnation}

    def is_over(self, now: int) -> bool:
        """Whether all acceptors have reported, or the deadline has passed."""
        if self.awaited and now >= self.deadline:
            log.warning("acceptors did not report unacked messages: they may be delivered twice",
                        acceptors=sorted(index for index, _ in self.awaited))  # fmt: skip
        return not self.awaited or now >= self.deadline


def living_acceptors(gauges: Gauges, incarnation: int) -> list[Incarnation]:
    """Return the acceptors that this incarnation of a shard waits for, as the gauges show them. A first one waits only
    for those that serve: the others have not met a shard that is added to their node.
    """
    living = (STARTING, READY) if incarnation > 1 else (READY,)
    places = [(index, gauges.process_read("acceptor", index)) for index in range(gauges.acceptors)]
    return [(index, place.incarnation) for index, place in places if place.state in living]
