"""Gates that open with time rather than by an event: those of limited rates, and of paced queues.

No event announces room at them. While channels wait there they are polled, as often as is worth while.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.gates.gate import Gate, WaitingChannel
from acceptor.gates.queue_gate import QueueGate

# Shortest poll interval of rates, in seconds; acceptors poll in turn, each at its own phase of the interval.
INTERVAL = 0.01
# A channel that waits longer is held, and its client notified. A shorter wait is a burst that has ended for a moment.
HELD_AFTER = 0.5 + INTERVAL
# A channel that has not waited for this long has ceased to: one that is admitted may come back a little later.
FORGOTTEN_AFTER = 0.25


class MeteredGate(Gate, Protocol):
    def due(self) -> float:
        """Return the seconds until there may be room again."""
        ...


class Held(NamedTuple):
    """A number of channels of a vhost that are held at a gate, since a time in seconds."""

    gate: Gate
    vhost: str
    since: float
    channels: int


Wait = tuple[Gate, WaitingChannel]
Place = tuple[Gate, str]
"""A gate, and the vhost of channels there."""


class Metered:
    """The gates of an acceptor that had no room (`closed`), and since when channels wait there. No channel is visited
    before it is due.

    `phase` is where in the interval this acceptor's turn is, in seconds. `pending` channels are not held yet, `leaving`
    ones were admitted; `newly_held` counts those held since the last call of `changed`.

          ──(waits)──▶ pending ──(`HELD_AFTER`)──▶ held
          leaving ◀──(admitted)── pending, held      leaving ──(`FORGOTTEN_AFTER`)──▶ forgotten
          leaving ──(waits again)──▶ as before
    """

    def __init__(self, phase: float) -> None:
        self.phase = phase
        self.closed: dict[MeteredGate, None] = {}
        self.since: dict[Wait, float] = {}
        self.pending: DeadlineQueue[Wait] = DeadlineQueue()
        self.leaving: DeadlineQueue[Wait] = DeadlineQueue()
        self.channels: Counter[Place] = Counter()
        self.newly_held: Counter[Place] = Counter()
        self.left: dict[Place, None] = {}
        self.held: dict[Place, Held] = {}

    def waits(self, gate: Gate, channel: WaitingChannel, now: float) -> None:
        """A channel waits at a gate, for the first time or again."""
        wait = gate, channel
        if wait not in self.since:
            self.since[wait] = now
            self.channels[gate, channel.access.vhost] += 1
            self.pending.put(wait, now + HELD_AFTER)
            return
        self.leaving.discard(wait)
        if channel.held_by is None and wait not in self.pending:
            self.pending.put(wait, now)

    def leaves(self, gate: Gate, channel: WaitingChannel, now: float) -> None:
        """A channel waits at a gate no longer, for the moment."""
        wait = gate, channel
        if wait in self.since:
            self.leaving.put(wait, now + FORGOTTEN_AFTER)

    def serve(self) -> None:
        """Admit waiting channels as far as there is room."""
        for gate in list(self.closed):
            gate.serve()
            if not gate.waiting:
                self.closed.pop(gate, None)

    def serve_paced(self) -> None:
        """Serve the paced queues after a turn of a shard: messages may have left them."""
        for gate in [gate for gate in self.closed if isinstance(gate, QueueGate)]:
            gate.serve()

    def due(self) -> float | None:
        """Return the seconds until it is worth while to `serve` again; None if no channel waits."""
        return min((gate.due() for gate in self.closed), default=None)

    def in_turn(self, due: float) -> float:
        """Return the first time not before `due` at which it is this acceptor's turn."""
        return due + (self.phase - due) % INTERVAL

    def hold_overdue(self, now: float) -> None:
        """Hold channels that have waited for long, and forget those that have not come back."""
        for gate, channel in self.leaving.pop_due(now):
            self.forget(gate, channel)
        for gate, channel in self.pending.pop_due(now):
            if channel not in gate.waiting:
                self.pending.put((gate, channel), now + FORGOTTEN_AFTER)
            elif gate.is_saturated():  # the stop holds it, not the pace
                self.pending.put((gate, channel), now + HELD_AFTER)
            else:
                channel.held_at(gate)
                self.newly_held[gate, channel.access.vhost] += 1

    def forget(self, gate: Gate, channel: WaitingChannel) -> None:
        """Forget a channel that has ceased to wait at a gate."""
        del self.since[gate, channel]
        self.pending.discard((gate, channel))
        place = gate, channel.access.vhost
        self.channels[place] -= 1
        if not self.channels[place]:
            del self.channels[place]
            self.left[place] = None

    def changed(self, now: float) -> tuple[list[Held], list[Held]]:
        """Return the places where channels came to be held since the last call, and those with earlier ones where no
        channel waits any more.
        """
        newly_held, self.newly_held = self.newly_held, Counter()
        left, self.left = self.left, {}
        begun = [Held(*place, now, count) for place, count in newly_held.items() if place not in self.held]
        self.held |= {(held.gate, held.vhost): held for held in begun}
        return begun, [self.held.pop(place) for place in left if place in self.held and place not in self.channels]
