"""Publishers of the three kinds found among real clients, and their patterns: steady, in bursts, coming and going."""

from __future__ import annotations

import os
import time
from typing import ClassVar

import pika
from locust.env import Environment

from load.counters import Wait
from load.payload import stamped
from load.ranges import RangeSet
from load.session import Session
from load.users.base import TURN_SECONDS, AmqpUser, tally


class Publisher(AmqpUser):
    """Writes batches; with confirms, waits for those of each batch before it writes the next."""

    abstract = True
    role: ClassVar[str] = "publishers"
    """The publisher's task, whatever its kind: publishers of a role should get equal shares."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.producer = int.from_bytes(os.urandom(4))  # unique across processes and machines
        self.sequence = 0
        self.first_of_session = 0
        self.due = 0.0

    @property
    def batch(self) -> int:
        """Messages per write."""
        return self.options.batch

    def properties(self) -> pika.BasicProperties | None:
        """Return the properties of the next batch."""
        return None

    def open_session(self) -> Session:
        session = super().open_session()
        self.first_of_session = self.sequence
        if self.options.confirm == "yes":
            session.confirm_select(self.on_settled)
        return session

    def must_hold(self, session: Session) -> bool:
        """Whether this kind of client stops publishing by now for Channel.Flow or Connection.Blocked."""
        return False

    def work(self, session: Session) -> None:
        now = time.monotonic()
        if session.unconfirmed:
            self.hold(session, "confirms")
        elif self.must_hold(session):
            self.hold(session, "stopped")
        elif now < self.due:
            session.turn(min(TURN_SECONDS, self.due - now))
        else:
            self.publish_batch(session)

    def hold(self, session: Session, what: Wait) -> None:
        """Wait for one turn without publishing."""
        began = time.monotonic()
        session.turn(TURN_SECONDS)
        tally.waits[self.kind][what] += time.monotonic() - began

    def publish_batch(self, session: Session) -> None:
        """Publish one batch and wait for its confirms, unless they are withheld until the test is over."""
        options, batch = self.options, self.batch
        began = time.monotonic()
        if options.publish_rate > 0:
            self.due = max(self.due, began - 1) + batch / options.publish_rate
        bodies = [
            stamped(sequence, self.producer, options.size) for sequence in range(self.sequence, self.sequence + batch)
        ]
        nbytes = batch * options.size
        # count them before writing: consumers may have them before the write returns
        self.sequence += batch
        tally.published[self.kind][self.producer] += batch
        session.publish(self.topology.routing_key, bodies, self.properties(), self.topology.exchange)
        written = time.monotonic() - began
        tally.waits[self.kind]["writing"] += written
        self.report("PUBLISH", written, nbytes)
        while session.unconfirmed and not self.stopping:
            self.hold(session, "confirms")
        if options.confirm == "yes" and not session.unconfirmed:
            self.report("CONFIRM", time.monotonic() - began, nbytes)

    def on_settled(self, tags: RangeSet, acked: bool) -> None:
        """Record confirms. Delivery tags count from 1 in each session, sequence numbers across all sessions."""
        before = self.first_of_session - 1
        for first, end in tags:
            if acked:
                tally.record_confirmed(self.producer, before + first, before + end, len(self.topology.queues))
            else:
                tally.sums["nacked"] += end - first


class Burster(Publisher):
    """Writes a burst as fast as it can, then pauses: a nightly job, an importer."""

    abstract = True
    role = "bursters"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.left = self.options.burst

    @property
    def batch(self) -> int:
        return min(self.options.batch, self.left)

    def publish_batch(self, session: Session) -> None:
        written = self.batch
        super().publish_batch(session)
        self.left -= written
        if not self.left:
            self.left = self.options.burst
            self.due = time.monotonic() + self.options.pause_seconds


class Churner(Publisher):
    """Opens a connection for each batch and closes it once the batch is confirmed, as scripts and web workers do."""

    abstract = True
    role = "churners"

    def publish_batch(self, session: Session) -> None:
        super().publish_batch(session)
        if not session.unconfirmed and not self.must_hold(session):
            self.leave()


class ObeyingPublisher(Publisher):
    """Stops on Channel.Flow, as the Java and .NET clients do, and sends the Java client's properties."""

    answers_flow = True

    def must_hold(self, session: Session) -> bool:
        return session.stopped_by_flow


class IgnoringPublisher(Publisher):
    """Ignores every stop, as most clients do: only confirms and TCP hold it."""


class BlockedAwarePublisher(Publisher):
    """Ignores Channel.Flow, but has a callback for Connection.Blocked."""

    def must_hold(self, session: Session) -> bool:
        return session.blocked


class ObeyingBurster(ObeyingPublisher, Burster):
    """In bursts, stops on Channel.Flow."""


class IgnoringBurster(IgnoringPublisher, Burster):
    """In bursts, ignoring every stop."""


class BlockedAwareBurster(BlockedAwarePublisher, Burster):
    """In bursts, stops on Connection.Blocked."""


class ObeyingChurner(ObeyingPublisher, Churner):
    """A connection a batch, stops on Channel.Flow."""


class IgnoringChurner(IgnoringPublisher, Churner):
    """A connection a batch, ignoring every stop."""


class BlockedAwareChurner(BlockedAwarePublisher, Churner):
    """A connection a batch, stops on Connection.Blocked."""
