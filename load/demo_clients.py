"""The two clients of the demonstration, each in a process of its own: a flat-out producer and a slow consumer.

Both report their progress twenty times a second, even while pika blocks their main thread.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from pika import exceptions

from load.payload import read_stamp, stamped
from load.session import Session
from load.target import Target

REPORT_SECONDS = 0.05
START_SECONDS = 30.0
TURN_SECONDS = 0.05
CATCH_UP_SECONDS = 0.2
"""The longest idle time that a consumer may make up for."""
HELD_SECONDS = 0.1
"""A producer that waits longer than this for the broker is shown as held."""


class ProducerKind(StrEnum):
    """How the producer reacts to a stop."""

    CONFIRMS = "confirms"
    """waits for the confirms of each batch before the next; knows nothing of flow control"""
    OBEYS = "obeys"
    """never waits, but stops on Channel.Flow, as the Java client does"""
    FLAT_OUT = "flat-out"
    """never waits, and obeys nothing but TCP"""


@dataclass(frozen=True, slots=True)
class Load:
    """The settings of both clients."""

    target: Target
    queue: str
    kind: ProducerKind
    size: int
    batch: int
    consumer_rate: float
    prefetch: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a client. `held` says what holds the producer, "" if nothing does; `wrong` counts messages that
    came out of order or after a gap; `error` ends the client.
    """

    messages: int = 0
    held: str = ""
    wrong: int = 0
    error: str = ""


class Client:
    """A client process, and its latest progress."""

    def __init__(self, run: Callable[..., None], load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self.ending: Event = context.Event()
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=run, args=(load, self.ending, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._progress = Progress()

    def wait_started(self) -> None:
        """Wait until the client has reported, at most `START_SECONDS`."""
        self._pipe.poll(START_SECONDS)

    @property
    def progress(self) -> Progress:
        """The latest progress reported; `error` is set if the client died without a report."""
        try:
            while self._pipe.poll():
                self._progress = self._pipe.recv()
        except EOFError:
            if self._process.exitcode and not self._progress.error:
                self._progress = replace(self._progress, error=f"a client died with exit code {self._process.exitcode}")
        return self._progress

    @property
    def done(self) -> bool:
        """Whether the process has ended."""
        return not self._process.is_alive()

    def stop(self) -> None:
        """End the process at once."""
        self._process.terminate()
        self._process.join()
        self._pipe.close()


class Reporter:
    """Sends the result of `progress` until `close`, from a thread of its own: pika may block the main thread."""

    def __init__(self, pipe: Connection, progress: Callable[[], Progress]) -> None:
        self._pipe, self._get_progress = pipe, progress
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(REPORT_SECONDS):
            self._pipe.send(self._get_progress())

    def close(self, error: str = "") -> None:
        """Send the last report."""
        self._ending.set()
        self._thread.join()
        self._pipe.send(replace(self._get_progress(), error=error))


class Producer:
    """Publishes batches; another thread may read what it is doing."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.session = Session(load.target, "demo producer", answers_flow=load.kind == ProducerKind.OBEYS)
        self.published = 0
        self._doing = ""
        self._since = time.monotonic()

    def run(self, ending: Event) -> None:
        """Publish until `ending`, then close the session."""
        if self.load.kind == ProducerKind.CONFIRMS:
            self.session.confirm_select(lambda _tags, _acked: None)
        while not ending.is_set():
            if self.load.kind == ProducerKind.OBEYS and self.session.stopped_by_flow:
                self._now("")
                self.session.turn(TURN_SECONDS)
            else:
                self._publish_batch()
        self._now("")
        self.session.close()

    def _publish_batch(self) -> None:
        first = self.published
        self.published += self.load.batch
        self._now("TCP: its socket is read slowly")
        self.session.publish(
            self.load.queue, [stamped(number, 0, self.load.size) for number in range(first, self.published)]
        )
        self._now("confirms withheld")
        while self.session.unconfirmed:
            self.session.turn(TURN_SECONDS)

    def _now(self, doing: str) -> None:
        self._doing, self._since = doing, time.monotonic()

    def progress(self) -> Progress:
        """Return the messages published so far, and what holds the producer at present."""
        return Progress(messages=self.published, held=self._held())

    def _held(self) -> str:
        causes = []
        if self.session.stopped_by_flow:
            causes.append("Channel.Flow")
        if self.session.blocked:
            causes.append("Connection.Blocked")
        if self._doing and time.monotonic() - self._since > HELD_SECONDS:
            causes.append(self._doing)
        return ", ".join(causes)


class Consumer:
    """Handles messages at a limited rate until `ending`, then without a limit."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.session = Session(load.target, "demo consumer")
        self.received = 0
        self.wrong = 0
        self._next = 0
        self._waiting: list[tuple[Any, bytes]] = []

    def run(self, ending: Event) -> None:
        """Consume until the process is stopped."""
        self.session.consume(
            self.load.queue, self.load.prefetch, lambda method, _properties, body: self._waiting.append((method, body))
        )
        handled_at = time.monotonic()  # the time of the last message, had all been handled at exactly the rate
        while True:
            self.session.turn(TURN_SECONDS / 5)
            now = time.monotonic()
            handled_at = max(handled_at, now - CATCH_UP_SECONDS)
            allowed = int((now - handled_at) * self.load.consumer_rate)
            count = len(self._waiting) if ending.is_set() else min(allowed, len(self._waiting))
            if count:
                self._handle(count)
                handled_at += count / self.load.consumer_rate

    def _handle(self, count: int) -> None:
        for _method, body in self._waiting[:count]:
            stamp = read_stamp(body)
            if stamp is None or stamp.sequence != self._next:
                self.wrong += 1
            self._next = stamp.sequence + 1 if stamp else self._next
        self.session.ack_up_to(self._waiting[count - 1][0].delivery_tag)
        self.received += count
        del self._waiting[:count]

    def progress(self) -> Progress:
        """Return the messages received so far."""
        return Progress(messages=self.received, wrong=self.wrong)


def produce(load: Load, ending: Event, pipe: Connection) -> None:
    """Run the producer in its process."""
    run_client(Producer, load, ending, pipe)


def consume(load: Load, ending: Event, pipe: Connection) -> None:
    """Run the consumer in its process."""
    run_client(Consumer, load, ending, pipe)


def run_client(client_class: type[Producer] | type[Consumer], load: Load, ending: Event, pipe: Connection) -> None:
    """Run a client in its process; report an error of the broker or the connection last."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demonstration, which ends its clients
    try:
        client = client_class(load)
    except (exceptions.AMQPError, OSError) as error:
        pipe.send(Progress(error=repr(error)))
        return
    reporter = Reporter(pipe, client.progress)
    try:
        client.run(ending)
    except (exceptions.AMQPError, OSError) as error:
        reporter.close(repr(error))
    else:
        reporter.close()
