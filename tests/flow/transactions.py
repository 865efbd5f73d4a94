"""Transactions, as rules: a commit takes effect as a whole, a rollback not at all, and a commit waits for room."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.clients import Clients
from tests.flow.world import EXCHANGES, Person, Session
from tests.frames import Event


class Transactions(Clients):
    """Clients commit their publishes and settlements, or roll them back."""

    @rule(which=st.integers(0, 50))
    def commit_some(self, which: int) -> None:
        """Commit a channel's transaction."""
        sessions = self.transactional()
        if sessions:
            self.commit_all(sessions[which % len(sessions)])

    @rule(which=st.integers(0, 50))
    def roll_back(self, which: int) -> None:
        """Roll back: the publishes are forgotten, the settled messages are unacked again."""
        sessions = self.transactional()
        if sessions:
            session = sessions[which % len(sessions)]
            session.client.client.send("tx.rollback", session.number)
            session.settled.difference_update(session.unsettled)
            session.uncommitted, session.unsettled = [], {}

    def transactional(self) -> list[Session]:
        """Return the channels with transactions."""
        sessions = [session for person in self.people for session in person.sessions.values()]
        return [session for session in sessions if session.tx and not session.closing]

    def commit_all(self, session: Session) -> None:
        """Commit; the messages given back may come again before the answer."""
        for tag, given_back in session.unsettled.items():
            self.returned[session.open[tag]] += given_back
        brought = Counter("" for _ in session.uncommitted)
        data = Counter({"": sum(self.sizes[id] for id in session.uncommitted)})
        for id in session.uncommitted:
            to = self.bound_for[id]
            for kind in EXCHANGES.get(to, (to,)):
                brought[kind] += 1
                data[kind] += self.sizes[id]
        for kind, count in brought.items():
            most, most_bytes = self.largest.get(kind, (0, 0))
            self.largest[kind] = max(most, count), max(most_bytes, data[kind])
        session.committing.append((session.uncommitted, session.unsettled))
        session.uncommitted, session.unsettled = [], {}
        session.client.client.send("tx.commit", session.number)

    def hear(self, person: Person, event: Event) -> bool:
        """Process a client's event; a commit may be refused."""
        session = person.sessions.get(event.channel)
        if session is not None and session.tx:
            if event.name == "channel.close":
                self.is_refused(session, event)
                return True
            if event.name == "tx.commit-ok" and not session.closing:
                self.is_committed(session)
        return super().hear(person, event)

    def is_committed(self, session: Session) -> None:
        """Record that the first commit was answered."""
        published, settled = session.committing.pop(0)
        self.arrived += published
        self.committed.update(published)
        for tag in settled:
            session.open.pop(tag)

    def is_refused(self, session: Session, event: Event) -> None:
        """Record that a rejecting queue had no room for the first commit, which ends the channel.

        The queue may have been deleted by the time that its acceptor learns of that. Or the publishes exceed their
        user's share: then the outcome of earlier commits is unknown.
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
