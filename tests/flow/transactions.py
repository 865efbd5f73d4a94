"""Transactions, as rules: what is committed is all done, what is rolled back is not, and a commit waits for room."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.clients import Clients
from tests.flow.world import EXCHANGES, Person, Session
from tests.frames import Event


class Transactions(Clients):
    """Clients commit what they have published and settled, or roll it back."""

    @rule(which=st.integers(0, 50))
    def commit_some(self, which: int) -> None:
        sessions = self.transactional()
        if sessions:
            self.commit_all(sessions[which % len(sessions)])

    @rule(which=st.integers(0, 50))
    def roll_back(self, which: int) -> None:
        """What is published is forgotten, what is settled is in hand again."""
        sessions = self.transactional()
        if sessions:
            session = sessions[which % len(sessions)]
            session.client.client.send("tx.rollback", session.number)
            session.settled.difference_update(session.unsettled)
            session.uncommitted, session.unsettled = [], {}

    def transactional(self) -> list[Session]:
        sessions = [session for person in self.people for session in person.sessions.values()]
        return [session for session in sessions if session.tx and not session.closing]

    def commit_all(self, session: Session) -> None:
        """Whether what it gives back comes again before it is heard that it has, nobody knows."""
        for tag, given_back in session.unsettled.items():
            self.returned[session.open[tag]] += given_back
        brought = Counter("" for _ in session.uncommitted)
        octets = Counter({"": sum(self.sizes[id] for id in session.uncommitted)})
        for id in session.uncommitted:
            to = self.bound_for[id]
            for kind in EXCHANGES.get(to, (to,)):
                brought[kind] += 1
                octets[kind] += self.sizes[id]
        for kind, count in brought.items():
            most, most_octets = self.largest.get(kind, (0, 0))
            self.largest[kind] = max(most, count), max(most_octets, octets[kind])
        session.committing.append((session.uncommitted, session.unsettled))
        session.uncommitted, session.unsettled = [], {}
        session.client.client.send("tx.commit", session.number)

    def hear(self, person: Person, event: Event) -> bool:
        session = person.sessions.get(event.channel)
        if session is not None and session.tx:
            if event.name == "channel.close":
                self.is_refused(session, event)
                return True
            if event.name == "tx.commit-ok" and not session.closing:
                self.is_committed(session)
        return super().hear(person, event)

    def is_committed(self, session: Session) -> None:
        published, settled = session.committing.pop(0)
        self.arrived += published
        self.committed.update(published)
        for tag in settled:
            session.open.pop(tag)

    def is_refused(self, session: Session, event: Event) -> None:
        """A queue that refuses what is too much had no room for the first commit: that ends the channel.

        It may have been deleted by the time that its acceptor hears of that. Or what was published is too much for the
        share of its user: then what becomes of earlier commits is not known.
        """
        gone = any(kept.gone for kept in self.queues.values())
        named = ("queue '", "a queue that is gone") if gone else ("queue '",)
        rolled_back = any(f"transaction rolled back: no room in {name}" in event.text for name in named)
        assert rolled_back or "more than its share (memory.user_percent)" in event.text, event
        person = session.client
        person.client.send("channel.close-ok", session.number)
        if session.closing:
            return  # its own close is answered as well
        if rolled_back:
            session.committing.clear()
        self.all_given_back(session)
        self.ends(session)
        del person.sessions[session.number]
        self.open(person, session.confirms, session.tx)
