"""Gates that open with time rather than by an event: those of limited rates, and of queues that are paced.

Nobody tells when there is room at them again: as long as somebody waits they are looked at, as often as is worth while.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from acceptor.due import Due
from acceptor.gate import Gate, Session
from acceptor.inlet import Inlet

# How often rates are looked at, at most; acceptors do so in turn, each at its part of the interval.
INTERVAL = 0.01
# Whoever waits longer is held, and told. What waits less has come to the end of its burst for a moment.
TOLD_AFTER = 0.5 + INTERVAL
# Who has not been seen waiting for so long waits no more: one that is let in comes back a little later.
FORGOTTEN_AFTER = 0.25


class MeteredGate(Gate, Protocol):
    def due(self) -> float:
        """In how many seconds there may be room again."""
        ...


class Held(NamedTuple):
    """So many sessions of a vhost are held at a gate, since then."""

    gate: Gate
    vhost: str
    since: float
    sessions: int


Wait = tuple[Gate, Session]
Place = tuple[Gate, str]
"""A gate, and the vhost of sessions there."""


class Metered:
    """The gates of an acceptor that had no room, and since when who waits there. Nobody is visited before it is time.

    `phase` is where in the interval its turn is, in seconds.

          ──(waits)──▶ untold ──(`TOLD_AFTER`)──▶ told
          leaving ◀──(let in)── untold, told        leaving ──(`FORGOTTEN_AFTER`)──▶ forgotten
          leaving ──(waits again)──▶ as before
    """

    def __init__(self, phase: float) -> None:
        self.phase = phase
        self.closed: dict[MeteredGate, None] = {}
        self.since: dict[Wait, float] = {}
        self.untold: Due[Wait] = Due()
        self.leaving: Due[Wait] = Due()
        self.sessions: Counter[Place] = Counter()
        self.told: Counter[Place] = Counter()
        self.left: dict[Place, None] = {}
        self.held: dict[Place, Held] = {}

    def waits(self, gate: Gate, session: Session, now: float) -> None:
        """A session begins to wait at a gate, or does so again."""
        wait = gate, session
        if wait not in self.since:
            self.since[wait] = now
            self.sessions[gate, session.vhost] += 1
            self.untold.put(wait, now + TOLD_AFTER)
            return
        self.leaving.discard(wait)
        if session.held_by is None and wait not in self.untold:
            self.untold.put(wait, now)

    def leaves(self, gate: Gate, session: Session, now: float) -> None:
        """A session waits at a gate no more, for now."""
        wait = gate, session
        if wait in self.since:
            self.leaving.put(wait, now + FORGOTTEN_AFTER)

    def serve(self) -> None:
        """Let in whom there is room for by now."""
        for gate in list(self.closed):
            gate.serve()
            if not gate.waiting:
                self.closed.pop(gate, None)

    def serve_paced(self) -> None:
        """A shard has said something: of paced queues some may have left."""
        for gate in [gate for gate in self.closed if isinstance(gate, Inlet)]:
            gate.serve()

    def due(self) -> float | None:
        """In how many seconds it is worth while to `serve` again; None if nobody waits."""
        return min((gate.due() for gate in self.closed), default=None)

    def in_turn(self, due: float) -> float:
        """A time not before that, at which it is this acceptor's turn."""
        return due + (self.phase - due) % INTERVAL

    def look(self, now: float) -> None:
        """Tell those who have waited for long, forget those who have not come back."""
        for gate, session in self.leaving.take(now):
            self.forget(gate, session)
        for gate, session in self.untold.take(now):
            if session not in gate.waiting:
                self.untold.put((gate, session), now + FORGOTTEN_AFTER)
            elif gate.is_saturated():  # that is what holds it
                self.untold.put((gate, session), now + TOLD_AFTER)
            else:
                session.held_at(gate)
                self.told[gate, session.vhost] += 1

    def forget(self, gate: Gate, session: Session) -> None:
        del self.since[gate, session]
        self.untold.discard((gate, session))
        place = gate, session.vhost
        self.sessions[place] -= 1
        if not self.sessions[place]:
            del self.sessions[place]
            self.left[place] = None

    def changed(self, now: float) -> tuple[list[Held], list[Held]]:
        """Where sessions are held since the last look, and where none waits any more, as it was when they were."""
        told, self.told = self.told, Counter()
        left, self.left = self.left, {}
        begun = [Held(*place, now, count) for place, count in told.items() if place not in self.held]
        self.held |= {(held.gate, held.vhost): held for held in begun}
        return begun, [self.held.pop(place) for place in left if place in self.held and place not in self.sessions]
