"""Requests that are answered: remote calls, and tasks as Celery sends them."""

from __future__ import annotations

import os
import time
import uuid

import pika
from locust.env import Environment
from pika import spec

from load.options import LoadOptions
from load.session import Session
from load.users.base import TURN_SECONDS
from load.users.consuming import Consumer, Delivered
from load.users.publishing import BlockedAwarePublisher, IgnoringPublisher, ObeyingPublisher, Publisher

REPLY_TO = "amq.rabbitmq.reply-to"
ANSWER = b"answer"
TASKS_AT_ONCE = 4
"""What Celery has a worker of one process prefetch."""
PERSISTENT = 2


class Caller(Publisher):
    """One request at a time, its answer by direct reply-to, the next when it is there."""

    abstract = True
    role = "callers"
    destination = "requests"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.awaited = ""
        """Correlation id of the call whose answer is not there."""
        self.called_at = 0.0

    @property
    def batch(self) -> int:
        return 1

    def opened(self) -> Session:
        session = super().opened()
        self.awaited = ""
        session.consume(REPLY_TO, 1, self.answered, auto_ack=True)
        return session

    def properties(self) -> pika.BasicProperties:
        self.awaited, self.called_at = uuid.uuid4().hex, time.monotonic()
        return pika.BasicProperties(reply_to=REPLY_TO, correlation_id=self.awaited, delivery_mode=PERSISTENT)

    def answered(self, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        if properties.correlation_id == self.awaited:
            self.awaited = ""
            self.report("CALL", time.monotonic() - self.called_at, len(body))

    def work(self, session: Session) -> None:
        if not self.awaited:
            super().work(session)
            return
        session.turn(TURN_SECONDS)
        took = time.monotonic() - self.called_at
        if self.awaited and took > self.options.call_seconds:
            self.awaited = ""
            self.report("CALL", took, error=TimeoutError(f"no answer in {self.options.call_seconds:g} s"))


class Responder(Consumer):
    """Answers requests."""

    destination = "requests"

    def done(self, session: Session, message: Delivered) -> None:
        properties = pika.BasicProperties(correlation_id=message.properties.correlation_id)
        session.publish(message.properties.reply_to, [ANSWER], properties)


class TaskProducer(Publisher):
    """`task.delay()`: a persistent message a task with Celery's headers, its result in a queue of the producer's own;
    it does not wait for results. Like Celery with confirm_publish, unless `--confirm no`.
    """

    abstract = True
    role = "task producers"
    destination = "tasks"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.results = ""
        self.sent_at: dict[str, float] = {}

    @property
    def batch(self) -> int:
        return 1

    def opened(self) -> Session:
        session = super().opened()
        self.results = str(session.channel.queue_declare("", exclusive=True).method.queue)
        self.sent_at.clear()
        session.consume(self.results, self.options.prefetch, self.finished, auto_ack=True)
        return session

    def properties(self) -> pika.BasicProperties:
        task = str(uuid.uuid4())
        self.sent_at[task] = time.monotonic()
        headers = {"lang": "py", "task": "load.task", "id": task, "root_id": task, "parent_id": None, "retries": 0}
        return pika.BasicProperties(
            content_type="application/json",
            content_encoding="utf-8",
            headers=headers | {"eta": None, "expires": None, "origin": f"gen{os.getpid()}@load"},
            delivery_mode=PERSISTENT,
            priority=0,
            correlation_id=task,
            reply_to=self.results,
        )

    def finished(self, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        began = self.sent_at.pop(properties.correlation_id, None)
        if began is not None:  # else it is told again after a redelivery
            self.report("TASK", time.monotonic() - began, len(body))


class TaskWorker(Consumer):
    """One task after the other, each acknowledged when it is done (Celery's acks_late), its result sent."""

    destination = "tasks"

    @classmethod
    def prefetch(cls, options: LoadOptions) -> int:
        return TASKS_AT_ONCE

    def handle(self, session: Session, count: int) -> None:
        time.sleep(self.options.task_ms / 1000)
        super().handle(session, 1)

    def done(self, session: Session, message: Delivered) -> None:
        properties = pika.BasicProperties(
            correlation_id=message.properties.correlation_id, content_type="application/json"
        )
        session.publish(message.properties.reply_to, [ANSWER], properties)


class ObeyingCaller(ObeyingPublisher, Caller):
    """Calls, stops on Channel.Flow."""


class IgnoringCaller(IgnoringPublisher, Caller):
    """Calls, whatever it is told."""


class BlockedAwareCaller(BlockedAwarePublisher, Caller):
    """Calls, stops on Connection.Blocked."""


class ObeyingTaskProducer(ObeyingPublisher, TaskProducer):
    """Sends tasks, stops on Channel.Flow."""


class IgnoringTaskProducer(IgnoringPublisher, TaskProducer):
    """Sends tasks whatever it is told, as Celery does."""


class BlockedAwareTaskProducer(BlockedAwarePublisher, TaskProducer):
    """Sends tasks, stops on Connection.Blocked."""
