"""What an acceptor has in flight to a shard, weighed against the bound of that (docs/decisions/0002).

A shard takes in what has come before it delivers, so all that is in flight stands before the next delivery. What that
costs depends on the queue. Where consumers keep pace, a message goes out in the turn in which it came, and large turns
share their fixed cost among many. In a queue that has grown although it has consumers, each message that comes in costs
what their next deliveries would, and the queue grows further: the fewer are in flight, the more of the shard's time is
theirs. So a message weighs by what becomes of it; the sum of the weights is what is bounded.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.gauges import Gauges

# A queue that holds no more than that, ready and unacked, only passes on what it gets.
SHALLOW_COUNT = 8192
SHALLOW_OCTETS = 4 * 1024 * 1024


class Weight(IntEnum):
    """How much one counts, in quarters."""

    PASSING = 1
    """It is soon gone: every queue that it is for is shallow."""
    WHOLE = 4
    LAGGING = 16
    """It is for a queue that is not, though it has consumers."""


BY_BACKLOG = (Weight.PASSING, Weight.WHOLE, Weight.LAGGING)
"""By what `Gauges.backlog` says."""


def weight_of(gauges: Gauges, slots: tuple[int, ...]) -> Weight:
    """That of messages for the queues with these slots in the gauges; without any, of what is for no queue."""
    return BY_BACKLOG[gauges.backlog(slots, SHALLOW_COUNT, SHALLOW_OCTETS)] if slots else Weight.WHOLE


class Load:
    """Messages and octets, and their weights: each in quarters of a message, or of an octet."""

    __slots__ = ("count", "count_weight", "octets", "octets_weight")

    def __init__(self) -> None:
        self.count = 0
        self.octets = 0
        self.count_weight = 0
        self.octets_weight = 0

    def add(self, count: int, octets: int, count_weight: int, octets_weight: int) -> None:
        self.count += count
        self.octets += octets
        self.count_weight += count_weight
        self.octets_weight += octets_weight

    def join(self, other: Load) -> None:
        self.add(other.count, other.octets, other.count_weight, other.octets_weight)

    def leave(self, other: Load) -> None:
        self.add(-other.count, -other.octets, -other.count_weight, -other.octets_weight)

    def mostly_passes(self) -> bool:
        """Whether two thirds of the octets and more weigh a quarter."""
        return 2 * self.octets > self.octets_weight


class InFlight:
    """All that is in flight from one acceptor to one shard, what is in the turn being written with it, and its bound.

    What comes next is taken to weigh what is in flight does on average, or, where nothing is, what came last did.
    """

    __slots__ = ("last", "last_octets", "load", "max_count", "max_octets")

    def __init__(self, max_count: int, max_octets: int) -> None:
        self.max_count = max_count
        self.max_octets = max_octets
        self.load = Load()
        self.last = self.last_octets = Weight.WHOLE

    def room(self) -> tuple[int, int]:
        """(messages, octets) that may still leave; 0 or less if none may."""
        load = self.load
        count = Weight.WHOLE * self.max_count - load.count_weight
        octets = Weight.WHOLE * self.max_octets - load.octets_weight
        return (
            count * load.count // load.count_weight if load.count else count // self.last,
            octets * load.octets // load.octets_weight if load.octets else octets // self.last_octets,
        )

    def is_empty(self) -> bool:
        return self.load.count == 0

    def add(self, turn: Load, count: int, octets: int, weight: Weight, octet_weight: Weight) -> None:
        """So much more is in the turn being written, of which `turn` is the load."""
        self.last, self.last_octets = weight, octet_weight
        count_weight, octets_weight = count * weight, octets * octet_weight
        turn.add(count, octets, count_weight, octets_weight)
        self.load.add(count, octets, count_weight, octets_weight)

    def forget(self) -> None:
        """Nothing is in flight any more."""
        self.load = Load()
