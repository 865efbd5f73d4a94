"""What can become of a message that is not confirmed: an error for each cause."""

from __future__ import annotations


class ProducerError(Exception):
    """Any of the errors below."""


class Full(ProducerError):
    """There is no room now and `send` was told not to wait for it; the text says what holds the producer."""


class Stopped(Full):
    """The broker has said to stop: Channel.Flow or connection.blocked."""


class WindowFull(Full):
    """As many messages (or octets) as may be are not confirmed."""


class NotConnected(Full, ConnectionError):
    """There is no connection at the moment; it is being made."""


class TimedOut(ProducerError, TimeoutError):
    """There was no room, or no confirm, in the time given; the text says what held the producer."""


class Rejected(ProducerError):
    """The broker refused the message: basic.nack, or basic.return for another reason than a route that is missing.

    A queue with overflow `reject-publish` does so when it is full, and one whose producers are refused after a time;
    `headers` are then those of the returned message: which queue, how deep, how long to wait.
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
    """The broker closed channel or connection because of the message. `code` and `text` are what it said."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class ConnectionLost(ProducerError, ConnectionError):
    """There is no connection and none is to be had in the time that was given for it."""


class Closed(ProducerError):
    """The producer was closed before the message was confirmed, or before it was sent."""
