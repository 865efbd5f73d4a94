"""Events of a run as its clients saw them, in the order in which they were recorded.

A client records an action before it writes it to the socket, and an observation after it reads it, so the events can
have happened in the order of the list.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Message(NamedTuple):
    """A message, named by its publisher and number. Numbers continue over the publisher's connections."""

    publisher: str
    number: int

    def __str__(self) -> str:
        return f"{self.publisher}#{self.number}"

    def body(self, size: int) -> bytes:
        """Return a body of at least `size` bytes that identifies the message and shows whether it is whole."""
        head = f"{self.publisher} {self.number} ".encode()
        filled = head + bytes((self.number + at) & 0xFF for at in range(min(size, 256))) * (size // 256 + 1)
        filled = filled[: max(size - 4, len(head))]
        return filled + zlib.crc32(filled).to_bytes(4, "big")

    @classmethod
    def of_body(cls, body: bytes) -> Message:
        """Return the message with this body. ValueError if the body is damaged."""
        if zlib.crc32(body[:-4]).to_bytes(4, "big") != body[-4:]:
            raise ValueError(f"damaged: {body[:40]!r}… of {len(body)} octets")
        publisher, number, _ = body.split(b" ", 2)
        return cls(publisher.decode(), int(number))


class How(StrEnum):
    """The ways to settle a delivery."""

    ACK = "ack"
    REJECT = "reject"
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class Sent:
    """About to be published, and to arrive in each of `queues`.

    `incarnation` counts the connections of the publisher; `commit` names the transaction of the message; `origin` is
    the message that it replaces, acked in the same transaction by the reader with the publisher's name.
    """

    message: Message
    queues: tuple[str, ...]
    incarnation: int
    priority: int = 0
    commit: str = ""
    origin: Message | None = None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """basic.ack for a publish, or the tx.commit-ok of its transaction."""

    message: Message


@dataclass(frozen=True, slots=True)
class Refused:
    """basic.nack for a publish."""

    message: Message


@dataclass(frozen=True, slots=True)
class Delivered:
    """Delivered to a reader. `incarnation` counts the reader's connections, of which it has one at a time."""

    queue: str
    reader: str
    incarnation: int
    message: Message
    redelivered: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """About to be acked, rejected or requeued by a reader."""

    queue: str
    reader: str
    incarnation: int
    message: Message
    how: How


@dataclass(frozen=True, slots=True)
class Done:
    """An ack or reject that must hold from now on, whichever process dies.

    It must once the queue's shard is known to have stored something later from the same acceptor: a persistent publish,
    later on the same channel, to a queue of that shard was confirmed; or, in a transaction, tx.commit-ok has arrived.
    """

    queue: str
    message: Message
    how: How


@dataclass(frozen=True, slots=True)
class AtRest:
    """All queues were empty while no client published, and after that each shard has confirmed a publish."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Harm about to be done to the node, or just done. `shards` are those that die of it."""

    what: str
    shards: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Over:
    """The node serves normally from now on; or a note for the reader of a history."""

    what: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A violation, recorded where it was found, with the message concerned, if any."""

    what: str
    message: Message | None = None


Event: TypeAlias = Sent | Confirmed | Refused | Delivered | Settled | Done | AtRest | Fault | Over | Wrong


class Record:
    """The list of events. Any thread may add to it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        """The times at which the events were recorded, in seconds since 1970."""
        self._lock = threading.Lock()

    def note(self, *events: Event) -> None:
        """Record events."""
        self.note_all(events)

    def note_all(self, events: Iterable[Event]) -> None:
        """Record events, together."""
        with self._lock:
            for event in events:
                self.events.append(event)
                self.times.append(time.time())

    def lines(self, wanted: Callable[[Event], bool] = lambda event: True) -> list[str]:
        """Return a line for each event, with the time as in the node's log (UTC)."""
        return [
            f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S.%f}  {event}"
            for seconds, event in zip(self.times, self.events, strict=True)
            if wanted(event)
        ]

    def faults(self) -> list[str]:
        """Return the lines of faults and of their ends."""
        return self.lines(lambda event: isinstance(event, Fault | Over))

    def history(self, message: Message) -> list[str]:
        """Return the lines of a message and its successors, with the faults in between."""

        def is_of_it(event: Event) -> bool:
            return message in (getattr(event, "message", None), getattr(event, "origin", None))

        return self.lines(lambda event: isinstance(event, Fault | Over) or is_of_it(event))
