"""A paced queue at an acceptor: its producers are let in as messages leave it (`penstock.pacing`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.inlet import share_of
from penstock.features import QueueFeatures
from penstock.pacing import Pacing
from penstock.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.inlet import Inlet
    from acceptor.metered import Metered

# How often the drain rate is looked at, and the queue itself: so often that a quarter of it may have left meanwhile.
LOOK_SECONDS = 0.01
SHORTEST, LONGEST = 0.001, 0.01


class Pace:
    """How an inlet is paced. `clock` is in seconds."""

    __slots__ = ("clock", "looked", "metered", "pacing")

    def __init__(self, clock: Callable[[], float], metered: Metered) -> None:
        self.clock = clock
        self.metered = metered
        self.pacing = Pacing(None, None)
        self.looked = -LOOK_SECONDS

    def left(self, inlet: Inlet) -> int:
        """How many messages this acceptor may send now, by its share of what the queue lacks."""
        target = self.pacing.target
        share = share_of(target - inlet.depth()[0], 2 * overshoot_of(target), inlet.acceptors)
        if share and 0 < inlet.weight < inlet.most_weight:
            share = inlet.part_of(share)
        left = share - inlet.in_flight
        if left <= 0:
            self.metered.closed[inlet] = None
        return max(left, 0)

    def observe(self, inlet: Inlet) -> None:
        now = self.clock()
        if now < self.looked + LOOK_SECONDS:
            return
        self.looked = now
        queue = inlet.gauges.queue_read(inlet.slot)
        if queue is not None:
            self.pacing.observe(now, queue.drained, queue.ready)

    def due(self, inlet: Inlet) -> float:
        """In how many seconds there may be room again."""
        if inlet.is_saturated():
            return LONGEST
        rate = (self.pacing.rate or 0.0) * inlet.acceptors * 4
        return max(SHORTEST, min(LONGEST, self.pacing.target / rate)) if rate else LONGEST


def paced(features: QueueFeatures, known: Pace | None, clock: Callable[[], float], metered: Metered) -> Pace | None:
    """The pace that a queue asks for, one that is known going on."""
    depth, wait = features.pace_depth, features.pace_wait
    if not depth and not wait:
        return None
    pace = known or Pace(clock, metered)
    pace.pacing.follow(depth, None if wait is None else wait / 1000)
    return pace
