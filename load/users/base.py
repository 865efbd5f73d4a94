"""The base of all users: a connection, which they reopen after an error, and the events that they report to Locust.

Events (Locust's count is batches, `response_length` bytes, times ms; messages are counted in `tally`):
  CONNECT     from opening a connection until its channel and queues exist
  PUBLISH     writing a batch; includes TCP back-pressure
  CONFIRM     from the first write of a batch until all of it is confirmed; includes withheld confirms
  END-TO-END  from before a message was written until a consumer handled it; the longest of one turn
  CALL        from publishing a request until its answer arrives
  TASK        from publishing a task until its result arrives
  FLOW        how long Channel.Flow stopped a publisher
  BLOCKED     how long Connection.Blocked was in force
  CONNECTION  failures only
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
"""How long a user waits for the broker before it checks whether the test is over."""
RECONNECT_SECONDS = 1.0

Event = Literal["CONNECT", "PUBLISH", "CONFIRM", "END-TO-END", "CALL", "TASK", "FLOW", "BLOCKED", "CONNECTION"]

tally = Tally()
"""The counts of this process's users."""


class AmqpUser(User):
    """A user with a connection, which it reopens after an error."""

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
        """Return 0: users pace themselves within their task, where heartbeats are answered."""
        return 0.0

    @property
    def stopping(self) -> bool:
        """Whether Locust has asked this user to end after its task."""
        return self._state != LOCUST_STATE_RUNNING

    @property
    def away(self) -> bool:
        """Whether the scenario wants this user to have no connection at present."""
        return False

    def report(self, kind: Event, seconds: float, nbytes: int = 0, error: Exception | None = None) -> None:
        """Report an event to Locust, under the name of this user's topology."""
        self.environment.events.request.fire(
            request_type=kind,
            name=self.topology.name,
            response_time=seconds * 1000,
            response_length=nbytes,
            exception=error,
            context={},
        )

    @task
    def step(self) -> None:
        """Run one batch or turn. A connection that fails is a failure of the test, and is replaced."""
        began = time.monotonic()
        try:
            if self.away:
                self.leave()
                time.sleep(TURN_SECONDS)
                return
            if self.session is None:
                self.session = self.open_session()
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

    def open_session(self) -> Session:
        """Open a session and declare the queues on it."""
        session = Session(self.target, self.name, self.answers_flow, self.on_stop_ended)
        self.topology.declare(session, self.options.queue_arguments)
        return session

    def on_stop_ended(self, stop: Stop) -> None:
        """Record a stop that the broker has lifted."""
        tally.record_stop(stop._replace(user=self.kind, queues=self.topology.queues))
        self.report(stop.method, stop.seconds)

    def work(self, session: Session) -> None:
        """Do the work of one task."""
        raise NotImplementedError
