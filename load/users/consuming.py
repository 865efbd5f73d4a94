"""Consumers that share a queue: as fast as possible, slow, and coming and going."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import pika
from locust.env import Environment
from pika import spec

from load.counters import stream_of
from load.options import LoadOptions
from load.payload import read_stamp
from load.session import Session
from load.users.base import TURN_SECONDS, AmqpUser, tally


class Attendance:
    """Whether the consumers of this process are sent away by a scenario."""

    away = False


attendance = Attendance()


class Delivered(NamedTuple):
    """A message waiting to be handled."""

    method: spec.Basic.Deliver
    properties: pika.BasicProperties
    body: bytes


class Consumer(AmqpUser):
    """Handles messages, at a limited rate if asked to, and acks those of a turn together."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.waiting: deque[Delivered] = deque()
        self.last_sequence: dict[int, int] = {}
        self.allowance_at = time.monotonic()
        self.copy = 0
        """The index of the consumed queue among those that get copies."""

    @property
    def rate(self) -> float:
        """Messages a second; 0 is no limit."""
        return self.options.consumer_rate

    @classmethod
    def prefetch(cls, options: LoadOptions) -> int:
        """Return how many messages a consumer may have unacknowledged."""
        return options.prefetch

    @property
    def away(self) -> bool:
        return attendance.away

    def open_session(self) -> Session:
        session = super().open_session()
        self.waiting.clear()
        self.last_sequence.clear()
        self.subscribe(session)
        return session

    def subscribe(self, session: Session) -> None:
        """Start consuming."""
        session.consume(self.topology.queues[self.copy], self.prefetch(self.options), self.on_delivery)

    def on_delivery(self, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        """Queue a delivery to be handled."""
        self.waiting.append(Delivered(method, properties, body))

    def work(self, session: Session) -> None:
        session.turn(0.0 if self.waiting and self.allowance() else TURN_SECONDS / 10 if self.waiting else TURN_SECONDS)
        count = min(len(self.waiting), self.allowance())
        if count:
            self.handle(session, count)

    def allowance(self) -> int:
        """Return how many messages the rate allows by now."""
        if self.rate <= 0:
            return len(self.waiting)
        now = time.monotonic()
        self.allowance_at = max(self.allowance_at, now - 1)  # unused allowance lasts a second
        return int((now - self.allowance_at) * self.rate)

    def handle(self, session: Session, count: int) -> None:
        """Check the next `count` messages and ack them."""
        if self.rate > 0:
            self.allowance_at += count / self.rate
        nbytes, oldest_ns, now_ns = 0, time.monotonic_ns(), time.monotonic_ns()
        for _ in range(count):
            message = self.waiting.popleft()
            nbytes += len(message.body)
            oldest_ns = min(oldest_ns, self.check(bool(message.method.redelivered), message.body))
            self.on_handled(session, message)
        session.ack_up_to(message.method.delivery_tag)
        tally.sums["received"] += count
        tally.sums["received_bytes"] += nbytes
        self.report("END-TO-END", (now_ns - oldest_ns) / 1e9, nbytes)

    def on_handled(self, session: Session, message: Delivered) -> None:
        """Hook: a message was handled and is acked next."""

    def check(self, redelivered: bool, body: bytes) -> int:
        """Record which message it is; return when it was sent (ns)."""
        stamp = read_stamp(body)
        if stamp is None:
            tally.sums["unstamped"] += 1
            return time.monotonic_ns()
        if self.options.verify == "yes":
            tally.record_received(stream_of(stamp.producer, self.copy), stamp.sequence, redelivered)
            if not redelivered:
                if stamp.sequence < self.last_sequence.get(stamp.producer, -1):
                    tally.sums["reordered"] += 1
                self.last_sequence[stamp.producer] = stamp.sequence
        return stamp.sent_ns


class SlowConsumer(Consumer):
    """Handles `--slow-rate` messages a second."""

    @property
    def rate(self) -> float:
        return self.options.slow_rate


class ChurningConsumer(Consumer):
    """Closes its connection after every turn in which it handled a message. The unhandled rest stays unacked, and comes
    back marked redelivered.
    """

    def handle(self, session: Session, count: int) -> None:
        super().handle(session, min(count, self.options.batch))
        self.leave()
