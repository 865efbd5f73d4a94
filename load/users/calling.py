"""Requests and answers: remote calls, and tasks as Celery sends them."""

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
"""Celery's prefetch for a worker of one process."""
PERSISTENT = 2


class Caller(Publisher):
    """Sends one request at a time and waits for its answer, by direct reply-to."""

    abstract = True
    role = "callers"
    destination = "requests"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.awaited = ""
        """Correlation id of the unanswered call, "" if there is none."""
        self.called_at = 0.0

    @property
    def batch(self) -> int:
        return 1

    def open_session(self) -> Session:
        session = super().open_session()
        self.awaited = ""
        session.consume(REPLY_TO, 1, self.on_answer, auto_ack=True)
        return session

    def properties(self) -> pika.BasicProperties:
        self.awaited, self.called_at = uuid.uuid4().hex, time.monotonic()
        return pika.BasicProperties(reply_to=REPLY_TO, correlation_id=self.awaited, delivery_mode=PERSISTENT)

    def on_answer(self, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
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

    def on_handled(self, session: Session, message: Delivered) -> None:
        properties = pika.BasicProperties(correlation_id=message.properties.correlation_id)
        session.publish(message.properties.reply_to, [ANSWER], properties)


class TaskProducer(Publisher):
    """Sends tasks as Celery's `task.delay()`: persistent messages with Celery's headers, results to the producer's own
    queue, without waiting for them. Confirms are those of Celery's confirm_publish, unless `--confirm no`.
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

    def open_session(self) -> Session:
        session = super().open_session()
        self.results = str(session.channel.queue_declare("", exclusive=True).method.queue)
        self.sent_at.clear()
        session.consume(self.results, self.options.prefetch, self.on_result, auto_ack=True)
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

    def on_result(self, method: spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        began = self.sent_at.pop(properties.correlation_id, None)
        if began is not None:  # else a repeated result, after a redelivery
            self.report("TASK", time.monotonic() - began, len(body))


class TaskWorker(Consumer):
    """Handles one task after the other, acks each when it is done (Celery's acks_late), and sends its result."""

    destination = "tasks"

    @classmethod
    def prefetch(cls, options: LoadOptions) -> int:
        return TASKS_AT_ONCE

    def handle(self, session: Session, count: int) -> None:
        time.sleep(self.options.task_ms / 1000)
        super().handle(session, 1)

    def on_handled(self, session: Session, message: Delivered) -> None:
        properties = pika.BasicProperties(
            correlation_id=message.properties.correlation_id, content_type="application/json"
        )
        session.publish(message.properties.reply_to, [ANSWER], properties)


class ObeyingCaller(ObeyingPublisher, Caller):
    """Calls, stops on Channel.Flow."""


class IgnoringCaller(IgnoringPublisher, Caller):
    """Calls, ignoring every stop."""


class BlockedAwareCaller(BlockedAwarePublisher, Caller):
    """Calls, stops on Connection.Blocked."""


class ObeyingTaskProducer(ObeyingPublisher, TaskProducer):
    """Sends tasks, stops on Channel.Flow."""


class IgnoringTaskProducer(IgnoringPublisher, TaskProducer):
    """Sends tasks, ignoring every stop, as Celery does."""


class BlockedAwareTaskProducer(BlockedAwarePublisher, TaskProducer):
    """Sends tasks, stops on Connection.Blocked."""
