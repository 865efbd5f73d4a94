"""Locust users: publishers of three kinds, as clients in the world are, and a consumer.

Events (their number is batches, `response_length` bytes, times ms; messages are counted in `tally`):
PUBLISH     writing a batch; TCP back-pressure shows here
CONFIRM     from the first write of a batch until all of it is confirmed; withheld confirms show here
END-TO-END  from before a message was written until a consumer handled it; the longest of one turn
FLOW        how long Channel.Flow stopped a publisher
BLOCKED     how long Connection.Blocked was in force
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from typing import Any, ClassVar

from locust import User, task
from locust.env import Environment
from locust.user.task import LOCUST_STATE_RUNNING
from pika import exceptions, spec

from load.counters import Stop, Tally
from load.options import LoadOptions, target_of
from load.payload import read_stamp, stamped
from load.ranges import RangeSet
from load.session import Session

TURN_SECONDS = 0.1
"""How long a user waits for the broker before it looks whether the test is over."""
RECONNECT_SECONDS = 1.0

tally = Tally()
"""What the users of this process counted."""


class AmqpUser(User):
    """A user with a connection, which it opens again after an error."""

    abstract = True
    answers_flow: ClassVar[bool] = False
    _numbers = itertools.count(1)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.options = LoadOptions.of(environment.parsed_options)
        self.target = target_of(environment.host)
        self.name = f"load {type(self).__name__} {os.getpid()}.{next(self._numbers)}"
        self.session: Session | None = None

    def wait_time(self) -> float:
        """None: users pace themselves, inside their task, where heartbeats are answered meanwhile."""
        return 0.0

    @property
    def stopping(self) -> bool:
        """Locust asked this user to end after its task."""
        return self._state != LOCUST_STATE_RUNNING

    def report(self, kind: str, seconds: float, octets: int = 0, error: Exception | None = None) -> None:
        """Tell Locust of one event on the queue."""
        self.environment.events.request.fire(
            request_type=kind,
            name=self.options.queue,
            response_time=seconds * 1000,
            response_length=octets,
            exception=error,
            context={},
        )

    @task
    def step(self) -> None:
        """One batch or turn. A connection that fails is a failure of the test and replaced."""
        began = time.monotonic()
        try:
            if self.session is None:
                self.session = self.opened()
            self.work(self.session)
        except (exceptions.AMQPError, OSError) as error:
            self.report("CONNECTION", time.monotonic() - began, error=error)
            self.session = None
            time.sleep(RECONNECT_SECONDS)

    def on_stop(self) -> None:
        """Close the connection, whatever state the broker left it in."""
        if self.session is None:
            return
        try:
            self.session.close()
        except (exceptions.AMQPError, OSError) as error:
            self.report("CONNECTION", 0.0, error=error)

    def opened(self) -> Session:
        """A session on which the queue is declared."""
        session = Session(self.target, self.name, self.answers_flow, self.stop_ended)
        session.channel.queue_declare(self.options.queue, durable=True, arguments=self.options.queue_arguments)
        return session

    def stop_ended(self, stop: Stop) -> None:
        """The broker's request not to publish is over."""
        tally.note_stop(stop)
        self.report(stop.told_by, stop.ended - stop.began)

    def work(self, session: Session) -> None:
        """What one task does."""
        raise NotImplementedError


class Publisher(AmqpUser):
    """Writes batches to the queue; with confirms, waits for those of a batch before it writes the next."""

    abstract = True

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.producer = int.from_bytes(os.urandom(4))  # told apart across processes and machines
        self.sequence = 0
        self.first_of_session = 0
        self.due = 0.0

    def opened(self) -> Session:
        session = super().opened()
        self.first_of_session = self.sequence
        if self.options.confirm == "yes":
            session.confirm_select(self.settled)
        return session

    def must_hold(self, session: Session) -> bool:
        """Whether this kind of client stops publishing for what the broker said."""
        return False

    def work(self, session: Session) -> None:
        now = time.monotonic()
        if session.unconfirmed or self.must_hold(session):
            session.turn(TURN_SECONDS)
        elif now < self.due:
            session.turn(min(TURN_SECONDS, self.due - now))
        else:
            self.publish_batch(session)

    def publish_batch(self, session: Session) -> None:
        """One batch, and its confirms, unless they are withheld until the test is over."""
        options = self.options
        began = time.monotonic()
        if options.publish_rate > 0:
            self.due = max(self.due, began - 1) + options.batch / options.publish_rate
        bodies = [
            stamped(sequence, self.producer, options.size)
            for sequence in range(self.sequence, self.sequence + options.batch)
        ]
        octets = options.batch * options.size
        # counted before they are written: consumers may have them before the write returns
        self.sequence += options.batch
        tally.published[self.producer] += options.batch
        tally.sums["published"] += options.batch
        tally.sums["published_bytes"] += octets
        session.publish(options.queue, bodies)
        self.report("PUBLISH", time.monotonic() - began, octets)
        while session.unconfirmed and not self.stopping:
            session.turn(TURN_SECONDS)
        if options.confirm == "yes" and not session.unconfirmed:
            self.report("CONFIRM", time.monotonic() - began, octets)

    def settled(self, tags: RangeSet, acked: bool) -> None:
        """Delivery tags count from 1 in each session, sequence numbers go on across them."""
        for first, end in tags:
            if acked:
                tally.note_confirmed(self.producer, self.first_of_session + first - 1, self.first_of_session + end - 1)
            else:
                tally.sums["nacked"] += end - first


class ObeyingPublisher(Publisher):
    """Stops on Channel.Flow, as the Java and .NET clients do, and introduces itself as one of them."""

    answers_flow = True

    def must_hold(self, session: Session) -> bool:
        return session.stopped_by_flow


class IgnoringPublisher(Publisher):
    """Goes on whatever it is told, as most clients do: only confirms and TCP hold it."""


class BlockedAwarePublisher(Publisher):
    """Ignores Channel.Flow, but its author wrote a callback for Connection.Blocked."""

    def must_hold(self, session: Session) -> bool:
        return session.blocked


class Consumer(AmqpUser):
    """Takes messages, at a limited rate if asked to, and acknowledges those of a turn together."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.waiting: deque[tuple[Any, bytes]] = deque()
        self.last_sequence: dict[int, int] = {}
        self.allowance_at = time.monotonic()

    def opened(self) -> Session:
        session = super().opened()
        self.waiting.clear()
        self.last_sequence.clear()
        session.consume(self.options.queue, self.options.prefetch, self.delivered)
        return session

    def delivered(self, method: spec.Basic.Deliver, body: bytes) -> None:
        self.waiting.append((method, body))

    def work(self, session: Session) -> None:
        session.turn(0.0 if self.waiting and self.allowance() else TURN_SECONDS / 10 if self.waiting else TURN_SECONDS)
        count = min(len(self.waiting), self.allowance())
        if count:
            self.handle(session, count)

    def allowance(self) -> int:
        """How many messages the rate allows by now."""
        rate = self.options.consumer_rate
        if rate <= 0:
            return len(self.waiting)
        now = time.monotonic()
        self.allowance_at = max(self.allowance_at, now - 1)  # what was not used is kept for a second
        return int((now - self.allowance_at) * rate)

    def handle(self, session: Session, count: int) -> None:
        """Look at the next `count` messages and acknowledge them."""
        if self.options.consumer_rate > 0:
            self.allowance_at += count / self.options.consumer_rate
        octets, oldest_ns, now_ns = 0, time.monotonic_ns(), time.monotonic_ns()
        for _ in range(count):
            method, body = self.waiting.popleft()
            octets += len(body)
            oldest_ns = min(oldest_ns, self.check(method.redelivered, body))
        session.ack_up_to(method.delivery_tag)
        tally.sums["received"] += count
        tally.sums["received_bytes"] += octets
        self.report("END-TO-END", (now_ns - oldest_ns) / 1e9, octets)

    def check(self, redelivered: bool, body: bytes) -> int:
        """Note which message it is; returns when it was sent (ns)."""
        stamp = read_stamp(body)
        if stamp is None:
            tally.sums["unstamped"] += 1
            return time.monotonic_ns()
        if self.options.verify == "yes":
            tally.note_received(stamp.producer, stamp.sequence, redelivered)
            if not redelivered:
                if stamp.sequence < self.last_sequence.get(stamp.producer, -1):
                    tally.sums["reordered"] += 1
                self.last_sequence[stamp.producer] = stamp.sequence
        return stamp.sent_ns
