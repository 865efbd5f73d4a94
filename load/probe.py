"""Direct access to the queues of a test: their depth while the load runs, and the messages remaining at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pika import exceptions, spec

from load.counters import Tally, stream_of
from load.payload import read_stamp
from load.session import Session
from load.target import Target

INTERVAL_SECONDS = 0.2
QUIET_SECONDS = 1.0
"""Time without a delivery after which a queue may count as empty: a broker may still hold back messages."""
DRAIN_PREFETCH = 1000


class Depth(NamedTuple):
    """Messages ready in each queue at a time (CLOCK_MONOTONIC, seconds)."""

    at: float
    ready: Mapping[str, int]

    @property
    def deepest(self) -> int:
        """The depth of the deepest queue."""
        return max(self.ready.values(), default=0)


class DepthProbe:
    """Asks for the depth of queues five times a second between `start` and `stop`, on a connection and a thread (under
    Locust a greenlet) of its own.
    """

    def __init__(self, target: Target, queues: Sequence[str]) -> None:
        self.depths: list[Depth] = []
        self._target = target
        self._queues = queues
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="load depth probe")

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; wait up to five seconds for the thread."""
        self._ending.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._observe(Session(self._target, "load depth probe"))
            except (exceptions.AMQPError, OSError):
                self._ending.wait(INTERVAL_SECONDS)  # the queue is not declared yet, or the broker is down

    def _observe(self, session: Session) -> None:
        try:
            while not self._ending.is_set():
                ready = {queue: session.depth(queue) for queue in self._queues}
                self.depths.append(Depth(time.monotonic(), ready))
                self._ending.wait(INTERVAL_SECONDS)
        finally:
            if session.connection.is_open:
                session.close()


def prepare(target: Target, queue: str, arguments: Mapping[str, object]) -> None:
    """Declare the queue and purge what an earlier run left in it."""
    session = Session(target, "load setup")
    session.channel.queue_declare(queue, durable=True, arguments=dict(arguments))
    session.channel.queue_purge(queue)
    session.close()


def drain(target: Target, queue: str, tally: Tally, seconds: float, copy: int = 0) -> int:
    """Consume the messages remaining in a queue and record them as received (of copy `copy`, see `stream_of`), until
    none arrive and the broker says that none remain, for at most `seconds`. Returns their number.
    """
    session = Session(target, "load drain")
    taken = 0
    last_tag = 0
    quiet_since = deadline = time.monotonic()
    deadline += seconds

    def delivered(method: spec.Basic.Deliver, _properties: object, body: bytes) -> None:
        nonlocal taken, last_tag, quiet_since
        taken += 1
        last_tag = method.delivery_tag
        quiet_since = time.monotonic()
        if stamp := read_stamp(body):
            tally.record_received(stream_of(stamp.producer, copy), stamp.sequence, method.redelivered)

    def is_empty() -> bool:
        """A broker that sends nothing may be waiting for a processor, so also ask it how many messages remain."""
        asked = time.monotonic()
        if asked - quiet_since < QUIET_SECONDS or session.depth(queue):
            return False
        session.turn()  # deliveries that arrived before the answer
        return quiet_since < asked

    session.consume(queue, DRAIN_PREFETCH, delivered)
    while time.monotonic() < deadline and not is_empty():
        session.turn(0.1)
        if last_tag:
            session.ack_up_to(last_tag)
            last_tag = 0
    session.close()
    return taken
