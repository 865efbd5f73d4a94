"""Clients that have agreed to heartbeats and send nothing: they are hung up on after two intervals (AMQP 0-9-1, 4.2.7).

Each is looked up when its time is over, no earlier. What arrived while the acceptor was busy is read first: a client is
silent only if nothing has come a moment later either.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

from acceptor.clients.connection_stage import OPEN, ConnectionStage
from acceptor.gates.deadline_queue import DeadlineQueue

if TYPE_CHECKING:
    from acceptor.clients.state import AcceptorState

INTERVALS = 2
"""Heartbeat intervals without a byte after which a client is silent."""
MOMENT_SECONDS = 0.1


class Beating(Hashable, Protocol):
    """A connection whose client sends heartbeats, at intervals of so many seconds if nothing else; 0: never."""

    heartbeat: int
    last_received: float
    pauses: int

    @property
    def stage(self) -> ConnectionStage: ...

    def miss_heartbeats(self) -> None:
        """Hang up."""
        ...


class Silence:
    """When each connection of an acceptor is to be looked at; those in `suspects` for the second time."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor
        self.due: DeadlineQueue[Beating] = DeadlineQueue()
        self.suspects: set[Beating] = set()

    def begin(self, connection: Beating) -> None:
        """Expect to hear from a client, if it has agreed to heartbeats."""
        if connection.heartbeat:
            self.due.put(connection, self.acceptor.now + INTERVALS * connection.heartbeat)

    def forget(self, connection: Beating) -> None:
        """Expect nothing more from a client."""
        self.due.discard(connection)
        self.suspects.discard(connection)

    def recheck(self) -> None:
        """Hang up on silent clients; called often. Of one that is not read nobody knows what it sends."""
        now = self.acceptor.now
        for connection in self.due.pop_due(now):
            patience = INTERVALS * connection.heartbeat
            due = (now if connection.pauses else connection.last_received) + patience
            if connection.stage is not OPEN:
                self.forget(connection)
            elif due > now:
                self.suspects.discard(connection)
                self.due.put(connection, due)
            elif connection not in self.suspects:
                self.suspects.add(connection)
                self.due.put(connection, now + MOMENT_SECONDS)
            else:
                self.forget(connection)
                connection.miss_heartbeats()
