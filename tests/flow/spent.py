"""Held clients that go on sending, as rules: what is kept for them is bounded, and what comes after that is told.

A client whose acceptor keeps all for it that may be kept meets the last resort that is set: its connection is closed
with a reason, or not read, or what it publishes with confirms is nacked. What was read of it is delivered all the same,
but where its user has more than its share: then it is dropped with its connection, and logged.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis.stateful import rule

from acceptor.connection import Connection
from acceptor.core import AcceptorCore
from acceptor.quotas import ORPHAN_OCTETS, OVERDRAFT
from tests.flow.strangers import Strangers
from tests.flow.world import Id, Person, Session
from tests.frames import Event

DROPPED = "parked publishes dropped with their connection"


class Spent(Strangers):
    """Clients meet the last resort, and others come in their place."""

    def __init__(self) -> None:
        super().__init__()
        # Whom a connection.close has told so: they go on sending until they have gone.
        self.ended: list[Person] = []
        # What was nacked, though nothing of it has entered a queue.
        self.nacked: set[Id] = set()

    def hear(self, person: Person, event: Event) -> bool:
        if event.name == "connection.close":
            self.is_closed(person, event)
            return True
        return super().hear(person, event)

    def is_closed(self, person: Person, event: Event) -> None:
        """For no other reason than that no more may be kept for it; what it has in hand is given back."""
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
        """Who was closed goes, and somebody of the same user comes."""
        for person in self.ended:
            person.client.lose()
        self.ended.clear()
        while len(self.people) < 2:
            self.people.append(self.arrive())

    def give_up_the_paused(self) -> None:
        """Where the last resort is to read them no more, those wait for ever whose acks are beyond what may be kept."""
        for person in list(self.people):
            connection = person.client.connection
            if self.last_resort == "pause" and connection in connection.services.throttle.last_resort.resorted:
                self.drop(person)

    def session(self, which: int) -> Session:
        if not self.people:
            self.reconnect()
        return super().session(which)

    def confirmed(self, session: Session, event: Event) -> None:
        before = session.told.keys() | set()
        super().confirmed(session, event)
        if event.name == "basic.nack" and self.last_resort == "nack":
            self.nacked |= {session.tags[tag] for tag in session.told.keys() - before}

    def may_refuse(self, id: Id) -> bool:
        return self.last_resort == "nack" or super().may_refuse(id)

    # What must hold

    def budgets_hold(self) -> None:
        """Nobody has more kept than may be, beyond what came by one read; and nothing is charged that is not there."""
        for _, life in self.node.running_acceptors():
            self.user_keeps_to_its_share(life.core)
            self.accounts_are_right(life.core)
            for connection in life.core.state.connections.values():
                self.connection_keeps_to_its_budget(connection)

    def connection_keeps_to_its_budget(self, connection: Connection) -> None:
        client = self.node.clients.get(connection)
        if client is not None:
            most = connection.services.throttle.quotas.of_connection * OVERDRAFT + client.largest_charge
            assert connection.kept_octets <= most, (connection.kept_octets, most)

    def user_keeps_to_its_share(self, core: AcceptorCore) -> None:
        quotas = core.quotas
        assert quotas.kept == sum(quotas.users.values())
        for user, kept in quotas.users.items():
            clients = [self.node.clients.get(connection) for connection in core.state.connections.values()]
            reads = sum(client.largest_charge for client in clients if client is not None and client.user == user)
            most = quotas.of_user * OVERDRAFT + reads + ORPHAN_OCTETS
            assert kept <= most, (kept, most)
        self.vhost_keeps_to_its_share(core)

    def vhost_keeps_to_its_share(self, core: AcceptorCore) -> None:
        """All are in the same one: its share is what bounds the acceptor."""
        quotas = core.quotas
        assert quotas.vhosts == ({"/": quotas.kept} if quotas.kept else {})
        clients = [self.node.clients.get(connection) for connection in core.state.connections.values()]
        reads = sum(client.largest_charge for client in clients if client is not None)
        assert quotas.kept <= quotas.of_vhost * OVERDRAFT + reads + ORPHAN_OCTETS

    def accounts_are_right(self, core: AcceptorCore) -> None:
        """Begun bodies, answers that nobody takes and what is not committed: all of it is charged, and no more."""
        charged: Counter[str] = Counter()
        for connection in core.state.connections.values():
            charged[connection.user] += connection.unfinished + connection.uncommitted + core.outputs.waits(connection)
        assert core.accounts.users == {user: octets for user, octets in charged.items() if octets}
        assert core.accounts.kept == charged.total()

    def nothing_is_kept(self, core: AcceptorCore) -> None:
        """Once all has been let in, and whoever was closed has gone."""
        assert (core.quotas.kept, core.quotas.users) == (0, {})
        assert (core.accounts.kept, core.accounts.users) == (0, {})
        assert not core.last_resort.spent and not core.last_resort.resorted and not core.last_resort.closing
        assert core.state.spool is None or core.state.spool.held == 0

    def dropped(self) -> tuple[set[int], int]:
        """Of whom parked publishes were dropped, or nacked on a channel that was being closed, by number of the client,
        and how many in all.
        """
        lines: list[Any] = [line for line in self.node.logs if line["event"] in (DROPPED, "refused")]
        numbers = {self.numbers[line["connection"]] for line in lines}
        return numbers, sum(line["messages"] for line in lines)
