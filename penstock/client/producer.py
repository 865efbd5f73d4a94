"""The producer for threads, on pika."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from penstock.client.core import Core, Metrics, report_commands, resolve
from penstock.client.errors import Closed, ConnectionLost, TimedOut
from penstock.client.extra import needs_extra
from penstock.client.options import OnFull, Options

with needs_extra("client"):
    import pika
    from pika.exceptions import AMQPError

    from penstock.client.link import CLOSE_SECONDS, Link, parameters_of

log = logging.getLogger("penstock.client")

LONGEST_WAIT = 0.25
"""Seconds after which a waiting thread checks whether to log the cause."""


class Producer:
    """Publishes with confirms over one connection, which is re-established after a loss. Any thread may use it; order
    holds for each thread.

    A message is published at least once: after a loss of the connection all unconfirmed messages are resent, with the
    same message ids, by which a consumer can recognise repeats.
    """

    def __init__(self, url: str = "amqp://guest:guest@127.0.0.1:5672/%2F", **options: Any) -> None:
        """Connect (`Options`). ConnectionLost if there is no connection in time or the broker refuses it."""
        self.options = Options(**options)
        parameters = parameters_of(url, self.options.name)
        self._core = Core(
            self.options.window_count,
            self.options.window_bytes,
            self.options.report_seconds,
            f"{parameters.host}:{parameters.port}",
            time.monotonic(),
        )
        self._condition = threading.Condition()
        self._ended: Exception | None = None
        self._woken = False
        self._unresolved = 0
        self._link = Link(parameters, self.options, _Listener(self))
        self._thread = threading.Thread(target=self._link.run, name="penstock producer", daemon=True)
        self._thread.start()
        try:
            self._wait(lambda: "connection" not in self._core.holding, self.options.connect_seconds)
        except TimedOut as late:
            self.close(0)
            raise ConnectionLost(str(late)) from None
        except ConnectionLost:
            self.close(0)
            raise

    def send(
        self,
        body: bytes,
        routing_key: str = "",
        *,
        exchange: str = "",
        properties: Mapping[str, Any] | None = None,
        mandatory: bool = True,
        on_full: OnFull = "block",
        timeout: float | None = None,
    ) -> Future[str] | None:
        """Publish a message. The future's result is its message id, once the broker has confirmed it, or an error.

        `properties` are named as in the specification (content_type, headers, …); delivery_mode is 2 and message_id a
        new UUID unless given. While the producer is held (Channel.Flow, connection.blocked, a full window, no
        connection) `on_full` selects the action: wait, at most `timeout` seconds (TimedOut); raise (Stopped,
        WindowFull, NotConnected, all subclasses of Full); or drop the message and return None. Closed, ConnectionLost:
        the producer has ended. ValueError, TypeError: the message cannot be encoded in AMQP.
        """
        _check(exchange, routing_key, properties)
        with self._condition:
            self._raise_if_ended()
            if self._core.holding:
                if on_full == "drop":
                    self._core.counts["dropped"] += 1
                    return None
                if on_full == "raise" or threading.current_thread() is self._thread:
                    raise self._core.full()
                self._wait(lambda: not self._core.holding, timeout)
            receipt: Future[str] = Future()
            receipt.set_running_or_notify_cancel()
            self._core.accept(body, exchange, routing_key, properties, mandatory, receipt, time.monotonic())
            self._wake()
        return receipt

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all sent messages are settled, confirmed or not, and their receipts resolved. TimedOut if that
        takes longer.
        """
        with self._condition:
            in_loop = threading.current_thread() is self._thread
            self._wait(lambda: not len(self._core.outbox) and (in_loop or not self._unresolved), timeout)

    def metrics(self) -> Metrics:
        """The counters, as of now."""
        with self._condition:
            return self._core.metrics(time.monotonic())

    def close(self, timeout: float | None = None) -> None:
        """Wait for confirms, at most `timeout` seconds, and close the connection; remaining messages end as Closed.

        The default of `timeout` is the option `close_seconds`.
        """
        self._close(timeout)

    def _close(self, timeout: float | None) -> TimedOut | None:
        """Close; return the error if not all messages were confirmed in time."""
        late = None
        timeout = self.options.close_seconds if timeout is None else timeout
        with self._condition:
            if self._ended is None:
                try:
                    self._wait(lambda: not len(self._core.outbox), timeout)
                except (TimedOut, ConnectionLost) as left:
                    log.info("closed before all was confirmed: %s", left)
                    late = left if isinstance(left, TimedOut) else None
            self._ended = self._ended or Closed("the producer is closed")
        if self._thread.is_alive():
            self._link.call(self._link.close)
            self._thread.join(CLOSE_SECONDS * 2)
        with self._event():
            self._core.give_up(Closed("the producer was closed"), time.monotonic())
        return late

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """As `close`, without waiting after an error. TimedOut if not all was confirmed within `close_seconds`."""
        late = self._close(None if kind is None else 0)
        if late is not None and kind is None:
            raise late

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(str(self._ended))

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> None:
        """Wait until `ready`, logging the cause now and then. TimedOut, or the error that ended the producer."""
        with self._condition:
            token, begun = object(), time.monotonic()
            self._core.waiting[token] = begun
            try:
                while not ready():
                    self._raise_if_ended()
                    now = time.monotonic()
                    left = LONGEST_WAIT if timeout is None else begun + timeout - now
                    if left <= 0:
                        self._core.counts["timed_out"] += 1
                        raise TimedOut(f"after {now - begun:.1f} s: {self._core.why()}")
                    self._core.log_waiting(now)
                    self._condition.wait(min(left, LONGEST_WAIT))
            finally:
                del self._core.waiting[token]

    @contextmanager
    def _event(self) -> Iterator[None]:
        """Apply an event from the broker under the lock; then wake waiting threads and resolve receipts, without the
        lock.
        """
        with self._condition:
            yield
            outcomes, self._core.outcomes = self._core.outcomes, []
            commands, self._core.commands = self._core.commands, []
            self._unresolved += len(outcomes)
            self._condition.notify_all()
        report_commands(self.options.on_flow, commands)
        if not outcomes:
            return
        try:
            resolve(outcomes)
        finally:
            with self._condition:  # `flush` waits for this as well
                self._unresolved -= len(outcomes)
                self._condition.notify_all()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._link.call(self._publish)

    def _publish(self) -> None:
        """Pass due messages to pika; in the loop's thread."""
        with self._condition:
            self._woken = False
            try:
                for _tag, message in self._core.due():
                    self._link.publish(message)
            except AMQPError as closing:
                log.debug("not published: %s", closing)  # resent as soon as there is a channel


class _Listener:
    """Brings what the broker says, in the loop's thread, to the producer's core."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._core = producer._core

    def up(self) -> None:
        with self._producer._event():
            self._core.connected(time.monotonic())
        self._producer._publish()

    def down(self, code: int, text: str) -> None:
        with self._producer._event():
            self._core.disconnected(code, text, time.monotonic())

    def hopeless(self, text: str) -> None:
        with self._producer._event():
            self._producer._ended = ConnectionLost(f"{self._core.target}: {text}")
            self._core.give_up(ConnectionLost(str(self._producer._ended)), time.monotonic())

    def flow(self, active: bool) -> None:
        with self._producer._event():
            self._core.flow(active, time.monotonic())
        self._producer._publish()

    def blocked(self, reason: str) -> None:
        with self._producer._event():
            self._core.blocked(reason, time.monotonic())

    def unblocked(self) -> None:
        with self._producer._event():
            self._core.unblocked(time.monotonic())
        self._producer._publish()

    def returned(
        self, message_id: str, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]
    ) -> None:
        with self._producer._event():
            self._core.returned(message_id, code, text, exchange, routing_key, headers)

    def settled(self, tag: int, multiple: bool, taken: bool) -> None:
        with self._producer._event():
            self._core.settled(tag, multiple, taken, time.monotonic())
        self._producer._link.proven()
        self._producer._publish()


def _check(exchange: str, routing_key: str, properties: Mapping[str, Any] | None) -> None:
    """Check in the caller's thread, not in the loop, that a publish can be encoded. ValueError or TypeError if not."""
    try:
        pika.spec.Basic.Publish(exchange=exchange, routing_key=routing_key).encode()
        pika.BasicProperties(**(properties or {})).encode()
    except (AMQPError, AssertionError, AttributeError, struct.error) as error:
        raise ValueError(f"cannot be encoded in AMQP: {error}") from error
