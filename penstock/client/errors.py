"""Errors of a producer: one class for each reason why a message is not confirmed."""

from __future__ import annotations


class ProducerError(Exception):
    """Base class of the errors below."""


class Full(ProducerError):
    """There is no room at present and `send` may not wait for it; the text says what holds the producer."""


class Stopped(Full):
    """The broker has stopped the producer: Channel.Flow or connection.blocked."""


class WindowFull(Full):
    """The window is full: as many messages (or bytes) as allowed are unconfirmed."""


class NotConnected(Full, ConnectionError):
    """There is no connection at present; the producer is connecting."""


class TimedOut(ProducerError, TimeoutError):
    """There was no room, or no confirm, within the given time; the text says what held the producer."""


class Unconfirmed(ProducerError):
    """The message was sent, and no confirm came within the given time: it may still be queued, then or later. The text
    says what held it.
    """


class Rejected(ProducerError):
    """The broker refused the message: basic.nack, or basic.return for another reason than a missing route.

    A full queue with overflow `reject-publish` does so, and a queue whose producers are refused after some time;
    `headers` are then those of the returned message: the queue, its depth, and how long to wait.
    """

    def __init__(self, text: str, headers: dict[str, object] | None = None) -> None:
        super().__init__(text)
        self.headers = headers or {}


class Unroutable(ProducerError):
    """The broker returned the message (basic.return). `code` and `text` are the reply's, `headers` the message's."""

    def __init__(self, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]) -> None:
        super().__init__(f"{code} {text}: exchange {exchange!r}, routing key {routing_key!r}")
        self.code = code
        self.text = text
        self.headers = headers


class Refused(ProducerError):
    """The broker closed channel or connection because of the message. `code` and `text` are those of the close."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class ConnectionLost(ProducerError, ConnectionError):
    """There is no connection, and none could be made within the given time."""


class Closed(ProducerError):
    """The producer was closed before the message was confirmed, or before it was sent."""
