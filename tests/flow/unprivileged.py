"""Unprivileged queues, as rules: users bind them to exchanges that they may not write to, and they do not affect
publishers.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from acceptor.amqp.channel import Channel
from tests.flow.transactions import Transactions
from tests.flow.world import EXCHANGES, KINDS, UNPRIVILEGED, Id, Kept, Session, identity
from tests.frames import Event
from tests.simulator.invariants.gates import queue_of
from tests.simulator.joined.node import parked
from tests.simulator.users import ANYWHERE, MALLORY, NOWHERE

HOLDING = ("flow", "reject", "reject-publish")
"""Overflows with which a queue's policy grants it power over its publishers."""


class Unprivileged(Transactions):
    """An unprivileged queue holds, slows and refuses only with the permission of the exchange's owner, or of an
    operator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.permitted = False
        # Kinds of queues that a policy gives power now, and those that anything has ever given power.
        self.empowered: set[str] = set()
        self.ever_empowered: set[str] = set()
        # Kinds that may ever have refused something.
        self.refusing = {kind for kind, (arguments, _) in KINDS.items() if "x-overflow" in arguments}

    @rule(permitted=st.booleans())
    def permit(self, permitted: bool) -> None:
        """Permit Mallory to write to all exchanges, or to none."""
        if self.node.router_lives:
            self.node.permit(MALLORY, ANYWHERE if permitted else NOWHERE)
            self.permitted = permitted
            if permitted:
                self.ever_empowered |= UNPRIVILEGED

    def note_policy(self, kind: str, definition: dict[str, Any]) -> None:
        """Record the power that a policy gives the queues of a kind, unless they have declared otherwise."""
        overflow = definition.get("overflow")
        self.empowered.discard(kind)
        if overflow in HOLDING and KINDS[kind][0].get("x-overflow", overflow) == overflow:
            self.empowered.add(kind)
            self.ever_empowered.add(kind)
        if overflow in HOLDING[1:]:
            self.refusing.add(kind)

    def is_powerless(self, kind: str, at_rest: bool) -> bool:
        """Whether a kind of queue has no power at present; before all has come to rest: whether it never had any."""
        if kind not in UNPRIVILEGED:
            return False
        return kind not in (self.empowered if at_rest else self.ever_empowered) and not (at_rest and self.permitted)

    def refuses_for_itself(self, kept: Kept) -> bool:
        """Whether a queue's refusals of parts of a commit are counted nowhere, as they are not reported."""
        return kept.kind in UNPRIVILEGED & self.refusing

    def nobody_waits_for_unprivileged_queues(self, at_rest: bool = False) -> None:
        """Check that channels wait at an unprivileged queue, or for its confirms, only if they published to it by its
        name.
        """
        kinds = {kept.id: kept.kind for kept in self.queues.values() if self.is_powerless(kept.kind, at_rest)}
        for channel in self.node.channels():
            for kind in {kinds.get(queue_of(gate)) for gate in channel.gates} - {None}:
                assert kind in {self.bound_for[id] for id in self.waiting_of(channel)}
        for person in self.people:
            by_confirms = {
                channel.confirms: person.sessions.get(channel.number)
                for channel in person.client.connection.channels.values()
            }
            for queue_gate in person.client.connection.services.gates.limited():
                for span in queue_gate.withheld if queue_gate.id in kinds else ():
                    session = by_confirms.get(span.confirms)
                    if session is not None and not span.done:
                        tags = range(span.first, span.first + span.count)
                        assert {self.bound_for[session.tags[tag]] for tag in tags} == {kinds[queue_gate.id]}

    def waiting_of(self, channel: Channel) -> set[Id]:
        """Return the messages that a channel has parked, is committing, or waits to have confirmed."""
        ids = {identity(body) for _, body in parked(channel)}
        for person in self.people:
            for session in person.sessions.values():
                if person.client.connection is channel.connection and session.number == channel.number:
                    ids |= {id for published, _ in session.committing for id in published}
                    ids |= {id for tag, id in session.tags.items() if tag not in session.answered}
        return ids

    def confirmed(self, session: Session, event: Event) -> None:
        """Check that every refused message was for a queue that may refuse it."""
        before = session.answered.keys() | set()
        super().confirmed(session, event)
        if event.name == "basic.nack" and not self.losses:
            for tag in session.answered.keys() - before:
                assert self.may_refuse(session.tags[tag])

    def may_refuse(self, id: Id) -> bool:
        """Whether one of the queues of a message may refuse it."""
        return bool(self.targets(id) & self.refusing)

    def targets(self, id: Id) -> set[str]:
        """Return the kinds of queues that may affect a message: unprivileged ones only if it is for them alone."""
        to = self.bound_for[id]
        kinds = EXCHANGES.get(to)
        return {to} if kinds is None else set(kinds) - (UNPRIVILEGED - self.ever_empowered)
