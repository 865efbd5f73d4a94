"""A connection of py-amqp that waits for nothing without a limit, for `penstock.client.kombu`.

py-amqp does not expose the reason of connection.blocked, and raises the error of a channel that the broker closes in
any call that reads. Both methods are intercepted where py-amqp dispatches them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import amqp
from amqp import spec
from amqp.exceptions import ConnectionError as AMQPConnectionError
from amqp.exceptions import error_for_code
from amqp.serialization import loads

from penstock.client.core import error_of_return
from penstock.client.errors import Stopped
from penstock.client.unconfirmed import Publish, Unsettled

CONFIRM_SECONDS: Final = 10.0
"""The default of `confirm_timeout`: well below the half minute after which web servers end a request."""


class Unanswered(Stopped, AMQPConnectionError):  # type: ignore[misc]
    """The broker did not answer a call, such as queue.declare, in time, and the connection was closed.

    To kombu it is an error of the connection, but none after which to repeat the call.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.args = (text,)


class LimitedConnection(amqp.Connection):  # type: ignore[misc]
    """A connection whose calls wait `confirm_timeout` seconds at most; `drain_events` waits as long as it is told to.

    `blocked` is the text of the last connection.blocked, empty after connection.unblocked.
    """

    def __init__(self, *arguments: Any, confirm_timeout: float = CONFIRM_SECONDS, **options: Any) -> None:
        """`options` are those of py-amqp. `confirm_publish` has no effect: all publishes are confirmed."""
        if not (isinstance(confirm_timeout, int | float) and confirm_timeout > 0):
            raise ValueError(f"confirm_timeout is a number of seconds above 0, not {confirm_timeout!r}")
        self.confirm_timeout = confirm_timeout
        self.blocked = ""
        self._deadline: float | None = None
        super().__init__(*arguments, **{**options, "confirm_publish": False})

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit all waits of the block, taken together. TimeoutError without an errno when the time is over."""
        outer, deadline = self._deadline, time.monotonic() + seconds
        self._deadline = deadline if outer is None else min(deadline, outer)
        try:
            yield
        finally:
            self._deadline = outer

    def left(self) -> float:
        """The seconds that are left of the block's. TimeoutError if none are."""
        left = self._deadline - time.monotonic() if self._deadline is not None else self.confirm_timeout
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def drain_events(self, timeout: float | None = None) -> None:
        """Handle the next method of the broker. TimeoutError after `timeout` seconds, or those that `within` leaves."""
        if self._deadline is not None and timeout != 0:
            left = self.left()
            timeout = left if timeout is None else min(timeout, left)
        super().drain_events(timeout)

    def drain_arrived(self) -> None:
        """Handle all methods that have arrived."""
        try:
            while True:
                self.drain_events(timeout=0)
        except TimeoutError as none:
            if not is_over(none):
                raise

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for an answer on channel 0, as to connection.close. TimeoutError after `confirm_timeout` seconds."""
        with self.within(self.confirm_timeout):
            return super().wait(*arguments, **options)

    def answer(self, wait: Callable[[], Any]) -> Any:
        """Wait for the answer to a call on a channel.

        Unanswered after `confirm_timeout` seconds. As a late answer would be taken for that to the next call, the
        connection is closed.
        """
        try:
            with self.within(self.confirm_timeout):
                return wait()
        except TimeoutError as late:
            if not is_over(late):
                raise
            self.collect()
            raise Unanswered(self.describe("no answer in time, connection closed")) from None

    def describe(self, text: str, held_by: str | None = None) -> str:
        """A text for an error: with the broker's address, and its reason for a hold (default: the present one)."""
        return "; ".join(filter(None, (f"{self.host}: {text}", self.blocked if held_by is None else held_by)))

    def dispatch_method(self, method_sig: tuple[int, int], payload: bytes, content: Any) -> None:
        """Handle a method of channel 0."""
        if method_sig == spec.Connection.Blocked:
            self.blocked = f"connection.blocked: {loads('s', payload, 4)[0][0]}"
        elif method_sig == spec.Connection.Unblocked:
            self.blocked = ""
        super().dispatch_method(method_sig, payload, content)


class PublishingChannel(amqp.Channel):  # type: ignore[misc]
    """A channel in confirm mode."""

    connection: LimitedConnection

    def __init__(self, connection: LimitedConnection) -> None:
        """Open a channel. Unanswered if that takes too long."""
        super().__init__(connection)
        self.unsettled = Unsettled()
        self.open()
        self.confirm_select()
        self.events["basic_ack"].add(lambda tag, multiple: self.unsettled.settle(tag, multiple, True))
        self.events["basic_nack"].add(lambda tag, multiple: self.unsettled.settle(tag, multiple, False))
        self.events["basic_return"].add(self._returned)

    def send(self, publish: Publish, message: amqp.Message, flags: dict[str, bool], seconds: float) -> None:
        """Write a publish, within `seconds`. RecoverableConnectionError if only a part could be written."""
        self.basic_publish(message, *publish.destination, **flags, timeout=seconds)
        self.unsettled.add(publish)

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for the answer to a call. Unanswered if it does not come in time."""
        return self.connection.answer(lambda: super(PublishingChannel, self).wait(*arguments, **options))

    def dispatch_method(self, method_sig: tuple[int, int], payload: bytes, content: Any) -> None:
        """Handle a method of this channel. If the broker closes it, that is an error of its own publishes only."""
        if method_sig != spec.Channel.Close:
            super().dispatch_method(method_sig, payload, content)
            return
        code, text, class_id, method_id = loads("BsBB", payload, 4)[0]
        self.send_method(spec.Channel.CloseOk)
        self.unsettled.fail(error_for_code(code, text, (class_id, method_id), amqp.ChannelError))
        self.collect()

    def _returned(self, error: amqp.AMQPError, exchange: str, routing_key: str, message: amqp.Message) -> None:
        headers = message.properties.get("application_headers") or {}
        target = self.connection.host
        returned = error_of_return(target, error.reply_code, error.reply_text, exchange, routing_key, headers)
        self.unsettled.returned(exchange, routing_key, returned)


def is_over(error: TimeoutError) -> bool:
    """Whether the time of a wait is over; with an errno, the kernel has given up the connection."""
    return error.errno is None
