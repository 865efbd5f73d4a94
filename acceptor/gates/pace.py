"""A paced queue at an acceptor: producers are admitted as messages leave the queue (`penstock.limits.pacing`).

A single acceptor admits as many messages as the queue lacks. Of several, each does so while no channel waits; then each
asks the queue's shard for room, and sends as much as it is given (shard/serving/paces.py). Room that no channel here
can use goes back at once.

      free ──(a channel waits)──▶ asked ──(`given`)──▶ admitted, and asked again ──(no channel waits)──▶ free
                                  asked ◀──(after `LONGEST`)── gone back
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.gates.queue_gate import share_of
from penstock.limits.features import QueueFeatures
from penstock.limits.pacing import Pacing
from penstock.limits.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.gates.metered import Metered
    from acceptor.gates.parts import Parts
    from acceptor.gates.queue_gate import QueueGate, QueuePace

# Poll interval of the drain rate; and bounds of that of the queue, between whose polls a quarter of it may leave.
RECHECK_SECONDS = 0.01
SHORTEST, LONGEST = 0.001, 0.01
# An acceptor asks for no room for a while, longer each time that no channel could use it, up to this many steps. The
# time differs between acceptors: else channels that need room in two queues would ask for one and then the other, in
# step.
FRUITLESS = 20
# Sent as the used room: all room given before is void, and none of it is still to come.
ANEW = ~0


class Pace:
    """The pace of one queue gate. `clock` returns seconds. `in_hand` is room from the shard that is not used yet;
    `reported` are the weight and target that the shard was sent last, None if it may know none. Until `idle_until` the
    shard is not asked for room, as no channel could use it. While `serving`, messages in flight `before` do not count
    against `in_hand`.
    """

    __slots__ = (
        "before",
        "checked_at",
        "clock",
        "fruitless",
        "idle_until",
        "in_hand",
        "metered",
        "pacing",
        "parts",
        "reported",
        "serving",
    )

    def __init__(self, clock: Callable[[], float], metered: Metered, parts: Parts) -> None:
        self.clock = clock
        self.metered = metered
        self.parts = parts
        self.pacing = Pacing(None, None)
        self.checked_at = -RECHECK_SECONDS
        self.in_hand = 0
        self.reported: tuple[int, int] | None = None
        self.idle_until = -LONGEST
        self.fruitless = 0
        self.serving = False
        self.before = 0

    def room(self, queue_gate: QueueGate) -> int:
        """Return how many messages this acceptor may send at present."""
        if self.serving:
            left = self.in_hand - (queue_gate.in_flight - self.before)
        elif queue_gate.acceptors > 1 and (queue_gate.waiting or queue_gate.weights.most):
            left = 0
        else:
            target = self.pacing.target
            share = share_of(target - queue_gate.depth()[0], 2 * overshoot_of(target), queue_gate.acceptors)
            left = share - queue_gate.in_flight
        if left <= 0:
            self.metered.closed[queue_gate] = None
        return max(left, 0)

    def serve(self, queue_gate: QueueGate) -> None:
        """Admit waiting channels as far as there is room, and report to the shard how much of it was used."""
        self.observe(queue_gate)
        if queue_gate.acceptors == 1:
            queue_gate.serve_line(counts=True)
            return
        if self.serving:
            return
        given = self.in_hand
        if given:
            self.serving, self.before = True, queue_gate.in_flight
            try:
                queue_gate.serve_line(counts=True)
                usable = not queue_gate.waiting or min(queue_gate.room()) > 0
            finally:
                self.serving = False
            sent = queue_gate.in_flight - self.before
            if sent:
                self.fruitless = 0
            self.in_hand = max(given - sent, 0)
            if self.in_hand and usable:  # there was room, and yet no channel used it: it goes back
                self.in_hand = 0
                if not sent:
                    self.idle_until = self.clock() + LONGEST * (1 + self.fruitless * (1 + self.parts.index))
                    self.fruitless = min(self.fruitless + 1, FRUITLESS)
        self.ask(queue_gate, given - self.in_hand)

    def ask(self, queue_gate: QueueGate, used: int = 0) -> None:
        """Report the waiting weight to the shard if that has changed, and how much of its room was used."""
        if queue_gate.acceptors == 1 or self.serving:
            return
        if queue_gate.waiting:  # keep polling: the idle time ends, and the shard may have died
            self.metered.closed[queue_gate] = None
        weight = queue_gate.waiting.weight if self.clock() >= self.idle_until else 0
        reported, target = self.reported, self.pacing.target
        if reported is None:
            if weight and self.parts.ask(queue_gate, weight, target, ANEW):
                self.reported = weight, target
        elif used or bool(weight) != bool(reported[0]) or (weight and target != reported[1]):
            self.reported = (weight, target) if self.parts.ask(queue_gate, weight, target, used) else None

    def given(self, queue_gate: QueueGate, count: int) -> None:
        """The shard gives room for `count` further messages."""
        if self.reported is not None:
            self.in_hand += count
            queue_gate.serve()

    def come_again(self, queue_gate: QueueGate, count: int) -> None:
        """Before messages are resent to a new incarnation: claim their room, so that it is not given to others."""
        if queue_gate.acceptors > 1 and self.parts.ask(queue_gate, 1, self.pacing.target, ~count):
            self.reported = 1, self.pacing.target

    def came_again(self, queue_gate: QueueGate, count: int) -> None:
        """The messages were resent: ask for room for waiting channels from now on."""
        if self.reported is not None:
            self.ask(queue_gate, count)

    def forget(self) -> None:
        """Forget all room and reports: the shard has lost them, or the queue has another shard."""
        self.in_hand = 0
        self.reported = None

    def observe(self, queue_gate: QueueGate) -> None:
        """Update the drain rate and the target from the queue's gauges."""
        now = self.clock()
        if now < self.checked_at + RECHECK_SECONDS:
            return
        self.checked_at = now
        queue = queue_gate.gauges.queue_read(queue_gate.slot)
        if queue is not None:
            self.pacing.observe(now, queue.drained, queue.ready)

    def due(self, queue_gate: QueueGate) -> float:
        """Return the seconds until there may be room again."""
        if queue_gate.is_saturated() or queue_gate.acceptors > 1:
            return LONGEST
        rate = (self.pacing.rate or 0.0) * 4
        return max(SHORTEST, min(LONGEST, self.pacing.target / rate)) if rate else LONGEST


def paced(
    features: QueueFeatures, known: QueuePace | None, clock: Callable[[], float], metered: Metered, parts: Parts
) -> QueuePace | None:
    """Return the pace that a queue's features ask for, continuing a `known` one; None if they ask for none."""
    if not features.paced:
        return None
    pace = known or Pace(clock, metered, parts)
    pace.pacing.adopt(features.pace_depth, None if features.pace_wait is None else features.pace_wait / 1000)
    return pace
