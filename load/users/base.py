"""What all users share: a connection, which they open again after an error, and what they tell Locust.

Events (their number is batches, `response_length` bytes, times ms; messages are counted in `tally`):
CONNECT     from opening a connection until its channel and queues are there
PUBLISH     writing a batch; TCP back-pressure shows here
CONFIRM     from the first write of a batch until all of it is confirmed; withheld confirms show here
END-TO-END  from before a message was written until a consumer handled it; the longest of one turn
CALL        from publishing a request until its answer is there
TASK        from publishing a task until its result is there
FLOW        how long Channel.Flow stopped a publisher
BLOCKED     how long Connection.Blocked was in force
CONNECTION  only failures
"""

from __future__ import annotations

import itertools
import os
import time
from typing import ClassVar, Literal

from locust import User, task
from locust.env import Environment
from locust.user.task import LOCUST_STATE_RUNNING
from pika import exceptions

from load.counters import Stop, Tally
from load.options import LoadOptions, target_of
from load.session import Session
from load.topology import Destination, topology_of

TURN_SECONDS = 0.1
"""How long a user waits for the broker before it looks whether the test is over."""
RECONNECT_SECONDS = 1.0

Event = Literal["CONNECT", "PUBLISH", "CONFIRM", "END-TO-END", "CALL", "TASK", "FLOW", "BLOCKED", "CONNECTION"]

tally = Tally()
"""What the users of this process counted."""


class AmqpUser(User):
    """A user with a connection, which it opens again after an error."""

    abstract = True
    answers_flow: ClassVar[bool] = False
    destination: ClassVar[Destination] = "queue"
    _numbers = itertools.count(1)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.options = LoadOptions.of(environment.parsed_options)
        self.target = target_of(environment.host)
        self.kind = type(self).__name__
        self.name = f"load {self.kind} {os.getpid()}.{next(self._numbers)}"
        self.topology = topology_of(self.destination, self.options)
        self.session: Session | None = None

    def wait_time(self) -> float:
        """None: users pace themselves, inside their task, where heartbeats are answered meanwhile."""
        return 0.0

    @property
    def stopping(self) -> bool:
        """Locust asked this user to end after its task."""
        return self._state != LOCUST_STATE_RUNNING

    @property
    def away(self) -> bool:
        """The scenario wants users like this one to have no connection for now."""
        return False

    def report(self, kind: Event, seconds: float, octets: int = 0, error: Exception | None = None) -> None:
        """Tell Locust of one event, on what this user publishes to or consumes from."""
        self.environment.events.request.fire(
            request_type=kind,
            name=self.topology.name,
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
            if self.away:
                self.leave()
                time.sleep(TURN_SECONDS)
                return
            if self.session is None:
                self.session = self.opened()
                self.report("CONNECT", time.monotonic() - began)
            self.work(self.session)
        except (exceptions.AMQPError, OSError) as error:
            self.report("CONNECTION", time.monotonic() - began, error=error)
            self.session = None
            time.sleep(RECONNECT_SECONDS)

    def on_stop(self) -> None:
        """Close the connection, whatever state the broker left it in."""
        try:
            self.leave()
        except (exceptions.AMQPError, OSError) as error:
            self.report("CONNECTION", 0.0, error=error)

    def leave(self) -> None:
        """Close the connection, if there is one."""
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def opened(self) -> Session:
        """A session on which the queues are declared."""
        session = Session(self.target, self.name, self.answers_flow, self.stop_ended)
        self.topology.declare(session, self.options.queue_arguments)
        return session

    def stop_ended(self, stop: Stop) -> None:
        """The broker's request not to publish is over."""
        tally.note_stop(stop._replace(user=self.kind, queues=self.topology.queues))
        self.report(stop.told_by, stop.seconds)

    def work(self, session: Session) -> None:
        """What one task does."""
        raise NotImplementedError
