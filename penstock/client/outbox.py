"""Messages that a producer has accepted and the broker has not settled: bounded, in order, resent after a loss.

    waiting ──publish──▶ in flight ──ack, nack──▶ settled
       ▲                     │
       └──connection lost────┘   in front, in the old order

Confirm tags count from 1 on each channel (RabbitMQ extension "publisher confirms").

If the broker closes a channel for an error, any message in flight may be to blame. These messages are resent one at a
time: a message that is alone in flight at the next such error is to blame, and is not resent.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.client.errors import ProducerError


class Receipt(Protocol):
    """The result of `send` for its caller: a future of threads or of asyncio."""

    def done(self) -> bool: ...
    def set_result(self, result: str, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


@dataclass(slots=True, eq=False)
class Message:
    """A message to be published; `properties` by the names of the specification (section 1.8.1, class basic)."""

    body: bytes
    exchange: str
    routing_key: str
    properties: Mapping[str, Any]
    mandatory: bool
    receipt: Receipt
    sent: int = 0
    returned: ProducerError | None = None
    alone: bool = field(default=False)
    """Whether it may have caused an error: it is sent with no other message in flight."""

    @property
    def message_id(self) -> str:
        """The property message-id."""
        return str(self.properties["message_id"])


class Outbox:
    """At most `count` messages and `nbytes` bytes of bodies; the last message may exceed the bytes, whatever
    its size.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        self.limit_count = count
        self.limit_bytes = nbytes
        self.nbytes = 0
        self._waiting: deque[Message] = deque()
        self._in_flight: OrderedDict[int, Message] = OrderedDict()
        self._tag = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight(self) -> int:
        """The number of messages in flight."""
        return len(self._in_flight)

    @property
    def full(self) -> bool:
        """Whether the limit of messages or bytes is reached."""
        return len(self) >= self.limit_count or self.nbytes >= self.limit_bytes

    def add(self, message: Message) -> None:
        """Append a message."""
        self.nbytes += len(message.body)
        self._waiting.append(message)

    def publish(self) -> Iterator[tuple[int, Message]]:
        """Yield each message that may go now, with its confirm tag. It counts as in flight once it is yielded."""
        while self._waiting:
            message = self._waiting[0]
            if self._in_flight and (message.alone or next(reversed(self._in_flight.values())).alone):
                return
            self._waiting.popleft()
            self._tag += 1
            message.sent += 1
            message.returned = None
            self._in_flight[self._tag] = message
            yield self._tag, message

    def returned(self, message_id: str, error: ProducerError) -> None:
        """Mark a message as returned by basic.return; its ack follows."""
        for message in self._in_flight.values():
            if message.message_id == message_id and message.returned is None:
                message.returned = error
                return

    def settle(self, tag: int, multiple: bool) -> list[Message]:
        """Remove and return the messages of an ack or nack; with `multiple` all up to the tag."""
        if not multiple:
            found = [message] if (message := self._in_flight.pop(tag, None)) else []
        else:
            found = []
            while self._in_flight and next(iter(self._in_flight)) <= tag:
                found.append(self._in_flight.popitem(last=False)[1])
        self.nbytes -= sum(len(message.body) for message in found)
        return found

    def lost(self, blame: bool) -> Message | None:
        """Take back all messages in flight, as the channel is gone and a new one counts from 1. `blame`: it closed for
        an error; then return the message that caused it, if that is certain.
        """
        in_flight = list(self._in_flight.values())
        self._in_flight.clear()
        self._tag = 0
        if blame and len(in_flight) == 1:
            self.nbytes -= len(in_flight[0].body)
            return in_flight[0]
        for message in in_flight:
            message.alone = message.alone or blame
        self._waiting.extendleft(reversed(in_flight))
        return None

    def clear(self) -> list[Message]:
        """Remove and return all messages that are not settled."""
        left = [*self._in_flight.values(), *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self.nbytes = 0
        return left
