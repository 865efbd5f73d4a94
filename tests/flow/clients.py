"""Clients' actions, as rules."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.world import EXCHANGES, KINDS, SIZES, Person, Session, World


class Clients(World):
    """Clients publish, consume, settle, get, leave and come back."""

    # Actions

    @rule(
        which=st.integers(0, 50), to=st.sampled_from([*EXCHANGES, *KINDS]), count=st.sampled_from([20, 5, 1]),
        size=st.sampled_from(SIZES),
    )  # fmt: skip
    def publish(self, which: int, to: str, count: int, size: int) -> None:
        """Publish messages to an exchange or a queue."""
        session = self.session(which)
        if session.client.obeys and not session.flows:
            return
        exchange, key = (to, "") if to in EXCHANGES else ("", self.living()[to].name if to in self.living() else "none")
        for _ in range(count):
            self.sent += 1
            session.published += 1
            id = session.client.number, session.number, session.published
            self.sent_at[id] = self.sent
            self.bound_for[id] = to
            if session.confirms:
                session.tags[session.published] = id
            body = b"%d %d %d " % id
            body += bytes(max(size - len(body), 0))
            self.sizes[id] = len(body)
            when_read = partial(self.arrived.append, id)
            if session.tx:
                session.uncommitted.append(id)
                when_read = None
            session.client.client.publish(
                session.number, body, exchange, key, when_read, delivery_mode=2 if self.stores else 1
            )  # fmt: skip

    @rule(
        which=st.integers(0, 50), kind=st.sampled_from([*KINDS]), prefetch=st.sampled_from([0, 1, 3, 10]),
        no_ack=st.booleans(), shared=st.sampled_from([None, None, 0, 1, 4]), priority=st.sampled_from([0, 0, 3]),
    )  # fmt: skip
    def consume(self, which: int, kind: str, prefetch: int, no_ack: bool, shared: int | None, priority: int) -> None:
        """Start a consumer."""
        if kind not in self.living() or len(self.session(which).consumers) > 2:
            return
        session, queue = self.session(which), self.living()[kind].name
        self.last_tag += 1
        tag = f"{'no-ack' if no_ack else 'ack'}-{self.last_tag}"
        session.consumers[tag] = queue
        session.client.client.send("basic.qos", session.number, prefetch_count=prefetch)
        if shared is not None:
            session.client.client.send("basic.qos", session.number, prefetch_count=shared, global_=True)
        session.asked.append(queue)
        session.client.client.send(
            "basic.consume", session.number, queue=queue, consumer_tag=tag, no_ack=no_ack,
            arguments={"x-priority": priority},
        )  # fmt: skip

    @rule(which=st.integers(0, 50))
    def cancel(self, which: int) -> None:
        """Cancel a consumer."""
        session = self.session(which)
        for tag in list(session.consumers)[:1]:
            session.client.client.send("basic.cancel", session.number, consumer_tag=tag)

    @rule(which=st.integers(0, 50), kind=st.sampled_from([*KINDS]), no_ack=st.booleans())
    def get(self, which: int, kind: str, no_ack: bool) -> None:
        """Get a message."""
        if kind in self.living():
            session, queue = self.session(which), self.living()[kind].name
            session.gets.append(f"no-ack {queue}" if no_ack else queue)
            session.client.client.send("basic.get", session.number, queue=queue, no_ack=no_ack)

    @rule(
        which=st.integers(0, 50), at=st.integers(0, 30), multiple=st.booleans(),
        how=st.sampled_from(["ack", "ack", "requeue", "reject", "recover"]),
    )  # fmt: skip
    def settle_some(self, which: int, at: int, multiple: bool, how: str) -> None:
        """Settle deliveries of a channel."""
        session = self.session(which)
        waiting = [tag for tag in session.open if tag not in session.settled]
        if not waiting or session.recovering or (session.tx and how == "recover"):
            return
        tag = waiting[at % len(waiting)]
        tags = [other for other in waiting if other <= tag] if multiple else [tag]
        if how != "recover":
            session.settled.update(tags)

        def when_read() -> None:
            for tag in tags:
                if how == "requeue":
                    self.given_back(session, tag)
                else:
                    del session.open[tag]

        client, number = session.client.client, session.number
        if session.tx:
            session.unsettled |= dict.fromkeys(tags, how == "requeue")
            when_read = None
        if how == "ack":
            client.send("basic.ack", number, when_read, delivery_tag=tag, multiple=multiple)
        elif how == "recover":
            session.recovering = True
            client.send("basic.recover", number, requeue=True)
        else:
            requeue = how == "requeue"
            client.send("basic.nack", number, when_read, delivery_tag=tag, multiple=multiple, requeue=requeue)

    @rule(which=st.integers(0, 50))
    def close_channel(self, which: int) -> None:
        """Close a channel and open another."""
        self.close_session(self.session(which))

    def close_session(self, session: Session) -> None:
        """Close a channel and open another of the same kind."""
        self.ends(session)
        session.client.client.send("channel.close", session.number, lambda: self.all_given_back(session), code=200)
        self.open(session.client, session.confirms, session.tx)

    @rule(which=st.integers(0, 50))
    def leave(self, which: int) -> None:
        """Drop a client's connection; another client comes."""
        self.drop(self.person(which))
        self.people.append(self.arrive())

    def drop(self, person: Person) -> None:
        """Drop a client's connection."""
        self.people.remove(person)
        for session in person.sessions.values():
            self.all_given_back(session)
            self.ends(session)
        person.client.lose()

    def ends(self, session: Session) -> None:
        """Record that a channel ends."""
        session.closing = True
        self.undecided += [ids for ids, _ in session.committing]
        self.leaky |= {queue for tag, queue in session.consumers.items() if tag.startswith("no-ack")}
        self.leaky |= {queue.removeprefix("no-ack ") for queue in session.gets}

    @rule(which=st.integers(0, 50), kind=st.sampled_from([*KINDS]))
    def delete(self, which: int, kind: str) -> None:
        """Delete the queue of a kind, unless a client waits for an answer from it."""
        kept = self.living().get(kind)
        sessions = [session for person in self.people for session in person.sessions.values()]
        if kept is not None and not any(kept.name in str(session.asked + session.gets) for session in sessions):
            kept.gone = True
            self.session(which).client.client.send("queue.delete", self.session(which).number, queue=kept.name)

    @rule(kind=st.sampled_from([*KINDS]))
    def declare_again(self, kind: str) -> None:
        """Declare the queue of a kind if there is none."""
        if kind not in self.living() and self.node.router_lives:
            self.declare(kind)
