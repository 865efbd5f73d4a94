"""Held clients that continue to send, as rules: the memory kept for them is bounded, and losses beyond that are
reported.

A client for which its acceptor keeps all that it may meets the configured last resort: its connection is closed with
a reason, or not read, or its publishes with confirms are nacked. Everything read from it is delivered all the same,
unless its user exceeds its share: then it is dropped with its connection, and logged.
"""

from __future__ import annotations

from typing import Any

from hypothesis.stateful import rule

from tests.flow.unprivileged import Unprivileged
from tests.flow.world import Id, Person, Session
from tests.frames import Event
from tests.simulator.invariants.accounts import budgets_hold

DROPPED = "parked publishes dropped with their connection"


class Spent(Unprivileged):
    """Clients meet the last resort, and others come in their place."""

    def __init__(self) -> None:
        super().__init__()
        # Clients that got a connection.close: they continue to send until they have gone.
        self.ended: list[Person] = []
        # Nacked messages, which have not entered any queue.
        self.nacked: set[Id] = set()

    def hear(self, person: Person, event: Event) -> bool:
        """Process a client's event; its connection may be closed."""
        if event.name == "connection.close":
            self.is_closed(person, event)
            return True
        return super().hear(person, event)

    def is_closed(self, person: Person, event: Event) -> None:
        """Record that a connection was closed as no more may be kept for it; its unacked messages are given back."""
        assert self.last_resort in ("close", "nack") and event.code == 506 and "no more can be" in event.text, event
        for session in person.sessions.values():
            self.all_given_back(session)
            if not session.closing:
                self.ends(session)
        if person in self.people:
            self.people.remove(person)
            self.ended.append(person)

    @rule()
    def reconnect(self) -> None:
        """Drop closed clients; another client of the same user comes."""
        for person in self.ended:
            person.client.lose()
        self.ended.clear()
        while len(self.people) < 2:
            self.people.append(self.arrive())

    def give_up_the_paused(self) -> None:
        """Drop clients that wait for ever under the last resort `pause`: their acks are beyond what may be kept."""
        for person in list(self.people):
            connection = person.client.connection
            if self.last_resort == "pause" and connection in connection.services.holding.last_resort.resorted:
                self.drop(person)

    def session(self, which: int) -> Session:
        """Return a channel; reconnect if there is no client."""
        if not self.people:
            self.reconnect()
        return super().session(which)

    def confirmed(self, session: Session, event: Event) -> None:
        """Check confirms; record messages nacked by the last resort."""
        before = session.answered.keys() | set()
        super().confirmed(session, event)
        if event.name == "basic.nack" and self.last_resort == "nack":
            self.nacked |= {session.tags[tag] for tag in session.answered.keys() - before}

    def may_refuse(self, id: Id) -> bool:
        """Whether a message may be nacked."""
        return self.last_resort == "nack" or super().may_refuse(id)

    # Invariants

    def budgets_hold(self) -> None:
        """Check that no more is kept for any client than allowed, beyond one read, and that charges are right."""
        budgets_hold(self.node)

    def dropped(self) -> tuple[set[int], int]:
        """Return the numbers of clients whose parked publishes were dropped, or nacked on a channel that was being
        closed, and how many publishes in all.
        """
        lines: list[Any] = [line for line in self.node.logs if line["event"] in (DROPPED, "refused")]
        numbers = {self.numbers[line["connection"]] for line in lines}
        return numbers, sum(line["messages"] for line in lines)
