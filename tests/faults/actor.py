"""A client that repeats its work, on a new connection whenever the old one breaks."""

from __future__ import annotations

import random
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping

from tests.faults.events import Message, Record, Wrong
from tests.faults.node import Node
from tests.frames import Event
from tests.raw import Channel, Client, Closed, HungUp

FORCED = 320
"""connection-forced: the broker stops in order."""
AGAIN_SECONDS = 0.02


class Actor(ABC):
    """A client of a run, with a new thread for each round. It keeps its knowledge from one round to the next."""

    properties: Mapping[str, str] | None = None
    """The client properties of its connections."""

    def __init__(self, node: Node, record: Record, name: str, seed: object) -> None:
        self.node = node
        self.record = record
        self.name = name
        self.chance = random.Random(f"{seed} {name}")
        self.incarnation = 0
        self.stopping = threading.Event()
        self._abandoned = False
        self._thread = threading.Thread()

    def start(self) -> None:
        """Begin a round's work, in a new thread."""
        self.stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the client finish the work begun, then end."""
        self.stopping.set()

    def abandon(self) -> None:
        """Have the client end when its connection breaks, because the node will not come back."""
        self._abandoned = True
        self.stopping.set()

    def join(self, timeout: float) -> None:
        """Wait until the client has ended; record a violation if it does not in time."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.wrong("does not come to an end")

    def wrong(self, what: str, message: Message | None = None) -> None:
        """Record a violation."""
        self.record.note(Wrong(f"{self.name}: {what}", message))

    def _run(self) -> None:
        try:
            while not (self._abandoned or self._worked_to_end()):
                time.sleep(AGAIN_SECONDS)
        except Exception as error:
            self.wrong(f"{type(error).__name__}: {error}")
            raise

    def _worked_to_end(self) -> bool:
        """Work on a new connection; return whether the work, and not only the connection, has ended."""
        self.incarnation += 1
        try:
            with self.node.connect(properties=self.properties) as client:
                self.work(client)
        except TimeoutError as error:
            self.wrong(f"no answer: {error}")
        except (HungUp, OSError):
            return False
        except Closed as closed:
            if closed.code == FORCED:
                return False
            self.wrong(str(closed))
        return True

    @abstractmethod
    def work(self, client: Client) -> None:
        """Do all the work on one connection, until `stopping`."""


def arrived(channel: Channel, seconds: float) -> deque[Event]:
    """Return the events of a channel, after waiting for at most `seconds`. Closed if the broker closes the channel or
    the connection.
    """
    client = channel.client
    if client.ready(select.POLLIN, seconds):
        client.receive()
    line, control = client.line(channel.number), client.line(0)
    for event in (*line, *control):
        if event.name.endswith(".close"):
            raise Closed(event)
    control.clear()  # connection.blocked and unblocked
    return line
