"""A paced queue at an acceptor: its producers are let in as messages leave it (`penstock.limits.pacing`).

One acceptor alone lets in what the queue lacks. Of several, each does so as long as nobody waits; then each asks the
queue's shard, and sends what that gives it (shard/serving/paces.py). What nobody here can use goes back at once.

      free ──(somebody waits)──▶ asked ──(`given`)──▶ let in, and asked again ──(nobody waits)──▶ free
                                 asked ◀──(after `LONGEST`)── gone back
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.inlet import share_of
from penstock.limits.features import QueueFeatures
from penstock.limits.pacing import Pacing
from penstock.limits.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.inlet import Inlet, QueuePace
    from acceptor.metered import Metered
    from acceptor.parts import Parts

# How often the drain rate is looked at, and the queue itself: so often that a quarter of it may have left meanwhile.
LOOK_SECONDS = 0.01
SHORTEST, LONGEST = 0.001, 0.01
# It is idle for longer each time that nobody can use what it gets, up to so many times, and for another time at each
# acceptor: those who need the room of two queues would else ask for one and then the other in turn, at the same times.
FRUITLESS = 20
# What was given before is void, and nothing of it is still to come.
ANEW = ~0


class Pace:
    """How an inlet is paced. `clock` is in seconds. `in_hand` is what the shard has given and has not been sent, `told`
    the weight and the target that it was told last; None: nothing since it may have forgotten. `idle_until` it is not
    asked for more, as nobody could use what it gave. While it is `serving`, what was under way `before` is not of that.
    """

    __slots__ = (
        "before",
        "clock",
        "fruitless",
        "idle_until",
        "in_hand",
        "looked",
        "metered",
        "pacing",
        "parts",
        "serving",
        "told",
    )

    def __init__(self, clock: Callable[[], float], metered: Metered, parts: Parts) -> None:
        self.clock = clock
        self.metered = metered
        self.parts = parts
        self.pacing = Pacing(None, None)
        self.looked = -LOOK_SECONDS
        self.in_hand = 0
        self.told: tuple[int, int] | None = None
        self.idle_until = -LONGEST
        self.fruitless = 0
        self.serving = False
        self.before = 0

    def left(self, inlet: Inlet) -> int:
        """How many messages this acceptor may send now."""
        if self.serving:
            left = self.in_hand - (inlet.in_flight - self.before)
        elif inlet.acceptors > 1 and (inlet.waiting or inlet.most_weight):
            left = 0
        else:
            target = self.pacing.target
            share = share_of(target - inlet.depth()[0], 2 * overshoot_of(target), inlet.acceptors)
            left = share - inlet.in_flight
        if left <= 0:
            self.metered.closed[inlet] = None
        return max(left, 0)

    def serve(self, inlet: Inlet) -> None:
        """Let in who waits, as far as there is room, and say what has become of it."""
        self.observe(inlet)
        if inlet.acceptors == 1:
            inlet.serve_line(counts=True)
            return
        if self.serving:
            return
        given = self.in_hand
        if given:
            self.serving, self.before = True, inlet.in_flight
            try:
                inlet.serve_line(counts=True)
                usable = not inlet.waiting or min(inlet.room()) > 0
            finally:
                self.serving = False
            sent = inlet.in_flight - self.before
            if sent:
                self.fruitless = 0
            self.in_hand = max(given - sent, 0)
            if self.in_hand and usable:  # nobody here can use it
                self.in_hand = 0
                if not sent:
                    self.idle_until = self.clock() + LONGEST * (1 + self.fruitless * (1 + self.parts.index))
                    self.fruitless = min(self.fruitless + 1, FRUITLESS)
        self.ask(inlet, given - self.in_hand)

    def ask(self, inlet: Inlet, used: int = 0) -> None:
        """Tell the shard what waits, where it is otherwise than was told, and what of its room has been used."""
        if inlet.acceptors == 1 or self.serving:
            return
        if inlet.waiting:  # who is idle for now is asked for again, and a shard may have died
            self.metered.closed[inlet] = None
        weight = inlet.waiting.weight if self.clock() >= self.idle_until else 0
        told, target = self.told, self.pacing.target
        if told is None:
            if weight and self.parts.ask(inlet, weight, target, ANEW):
                self.told = weight, target
        elif used or bool(weight) != bool(told[0]) or (weight and target != told[1]):
            self.told = (weight, target) if self.parts.ask(inlet, weight, target, used) else None

    def given(self, inlet: Inlet, count: int) -> None:
        """The shard has room for so many more."""
        if self.told is not None:
            self.in_hand += count
            inlet.serve()

    def come_again(self, inlet: Inlet, count: int) -> None:
        """So many messages are sent again to a new life of the shard, which is told before it gives room to others."""
        if inlet.acceptors > 1 and self.parts.ask(inlet, 1, self.pacing.target, ~count):
            self.told = 1, self.pacing.target

    def came_again(self, inlet: Inlet, count: int) -> None:
        """They have left; what waits here is asked for from now on."""
        if self.told is not None:
            self.ask(inlet, count)

    def forget(self) -> None:
        """The shard does not know what it was told, or is another one: it is asked anew."""
        self.in_hand = 0
        self.told = None

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
        if inlet.is_saturated() or inlet.acceptors > 1:
            return LONGEST
        rate = (self.pacing.rate or 0.0) * 4
        return max(SHORTEST, min(LONGEST, self.pacing.target / rate)) if rate else LONGEST


def paced(
    features: QueueFeatures, known: QueuePace | None, clock: Callable[[], float], metered: Metered, parts: Parts
) -> QueuePace | None:
    """The pace that a queue asks for, one that is known going on."""
    if not features.paced:
        return None
    pace = known or Pace(clock, metered, parts)
    pace.pacing.follow(features.pace_depth, None if features.pace_wait is None else features.pace_wait / 1000)
    return pace
