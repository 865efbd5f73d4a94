"""A consumer on pika in a thread of its own, so that heartbeats go on between reads. Independent of Spark.

    pop ◀── deque ◀── intake ◀── the thread's loop ◀── broker      ack, count ──▶ the thread's loop ──▶ broker

At most `prefetch` messages are unacked, and so in the deque. The receiver connects once: when the connection or the
consumer is gone, unacked messages belong to the broker again, and every call raises ReceiverError.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pika
from pika.adapters.select_connection import IOLoop

from penstock.client.link import CLOSE_SECONDS, parameters_of, said
from pyspark_penstock.intake import Delivery, Intake

T = TypeVar("T")

CONNECT_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0
"""How long the broker may take to answer on an open connection."""

WAIT_SECONDS: Final = 0.1

DRY_SECONDS: Final = 2.0
"""Time without a message from a queue with none ready after which it counts as drained: other consumers have the rest.
"""


class ReceiverError(RuntimeError):
    """There is no consumer, or it has ended; the text says why."""


class _Connection(pika.SelectConnection):  # type: ignore[misc]
    """pika's connection without deliveries. `feed` gets the bytes read, and returns other frames through
    `process_frames`.
    """

    def __init__(self, parameters: Any, feed: Callable[[bytes], None], **options: Any) -> None:
        self._feed = feed
        super().__init__(parameters, **options)

    def _on_data_available(self, data_in: bytes) -> None:
        self.bytes_received += len(data_in)  # pika's heartbeat check uses it
        self._feed(data_in)

    def process_frames(self, data: bytes) -> None:
        super()._on_data_available(data)


class Receiver:
    """A consumer of a queue. With a `prefetch` of 0 it does not consume, but counts messages and ends leases."""

    def __init__(self, url: str, queue: str, prefetch: int, arguments: Mapping[str, Any] | None = None) -> None:
        """Prepare to connect; `start` connects. ReceiverError if `url` is no AMQP URL."""
        try:
            self._parameters = parameters_of(url, f"Spark, queue {queue}")
        except Exception as error:  # pika raises what int() and its own checks raise
            raise ReceiverError(f"no AMQP URL: {url!r} ({error})") from error
        self.queue = queue
        self.ready = 0
        """Messages ready when it began to consume."""
        self._prefetch = prefetch
        self._arguments = dict(arguments or {})
        self._leases = not prefetch or "x-lease" in self._arguments
        self._deliveries: deque[Delivery] = deque()
        self._arrived = threading.Condition()
        self._wanted = 0
        """The number of deliveries that a caller waits for; 0 if none waits."""
        self._intake = Intake(self._deliveries.append, lambda nbytes: self._connection.process_frames(nbytes))
        self._consuming = False
        self._ended: str | None = None
        self._loop: Any = None
        self._connection: Any = None
        self._channel: Any = None
        self._tag = ""
        self._thread = threading.Thread(target=self._run, name=f"receiver of {queue}", daemon=True)

    def start(self) -> None:
        """Connect and consume. ReceiverError if that fails."""
        self._thread.start()
        self._wait(lambda: self._consuming, CONNECT_SECONDS, "no consumer")

    def pop(self, most: int, seconds: float) -> list[Delivery]:
        """Return up to `most` deliveries in order; wait up to `seconds` for the first. ReceiverError."""
        with self._arrived:
            self._wait_for(1, seconds)
            return [self._deliveries.popleft() for _ in range(min(most, len(self._deliveries)))]

    def gather(self, count: int, silent_seconds: float) -> list[Delivery]:
        """Return `count` deliveries in order, or fewer if none has arrived for `silent_seconds` (at most twice that).
        ReceiverError.
        """
        with self._arrived:
            seen = -1
            while seen < len(self._deliveries) < count:
                seen = len(self._deliveries)
                self._wait_for(count, silent_seconds)
            return [self._deliveries.popleft() for _ in range(min(count, len(self._deliveries)))]

    def drain(self, most: int) -> list[Delivery]:
        """Return up to `most` deliveries; none only if `most` is 0 or the queue has no more for this consumer."""
        since = time.monotonic()
        while most and time.monotonic() - since < DRY_SECONDS:
            if deliveries := self.pop(most, WAIT_SECONDS):
                return deliveries
            if self.count():
                since = time.monotonic()
        return []

    def ack(self, tag: int) -> None:
        """Ack all deliveries up to a tag, without waiting. ReceiverError if the receiver has ended."""
        self._call(lambda: self._channel.basic_ack(tag, multiple=True))

    def count(self) -> int:
        """Return the number of ready messages. The broker answers after it has processed all acks before."""
        answers: list[int] = []
        self._call(lambda: self._declare(lambda frame: self._answer(answers, frame.method.message_count)))
        self._wait(lambda: bool(answers), ANSWER_SECONDS, f"no word about the queue '{self.queue}'")
        return answers[0]

    def cancel(self) -> None:
        """Stop consuming. Deliveries received before can still be taken; a lease keeps the unacked ones."""
        done: list[bool] = []
        self._call(lambda: self._channel.basic_cancel(self._tag, callback=lambda _: self._answer(done, True)))
        self._wait(lambda: bool(done), ANSWER_SECONDS, f"the consumer of '{self.queue}' not cancelled")

    def ack_lease(self, lease: str) -> None:
        """Ack all messages of a lease, if it exists, and wait until that is done."""
        arguments = {"x-lease": lease, "x-lease-end": "ack"}
        done: list[bool] = []

        def end() -> None:
            tag = self._channel.basic_consume(self.queue, _unused, arguments=arguments, callback=lambda _: ended())

            def ended() -> None:
                self._channel.basic_cancel(tag, callback=lambda _: self._answer(done, True))

        self._call(end)
        self._wait(lambda: bool(done), ANSWER_SECONDS, f"lease {lease!r} of '{self.queue}' not ended")

    def close(self) -> None:
        """Close the connection; unacked messages go back to the queue, unless a lease keeps them."""
        with self._arrived:
            if self._ended is None:
                self._ended = "closed"
                if self._loop is not None:
                    self._loop.add_callback_threadsafe(self._close)
        if self._thread.is_alive():
            self._thread.join(2 * CLOSE_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()

    # In the caller's thread

    def _wait_for(self, count: int, seconds: float) -> None:
        self._wanted = count
        self._arrived.wait_for(lambda: len(self._deliveries) >= count or self._ended is not None, seconds)
        self._wanted = 0
        self._raise_if_ended()

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise ReceiverError(
                f"queue '{self.queue}' at {self._parameters.host}:{self._parameters.port}: {self._ended}"
            )

    def _wait(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        with self._arrived:
            while not ready():
                self._raise_if_ended()
                if not self._arrived.wait_for(lambda: ready() or self._ended is not None, deadline - time.monotonic()):
                    raise ReceiverError(f"{what} after {seconds:g} s")

    def _call(self, callback: Callable[[], None]) -> None:
        with self._arrived:
            self._raise_if_ended()
            self._loop.add_callback_threadsafe(callback)

    # In the receiver's thread

    def _run(self) -> None:
        loop: Any = IOLoop()
        with self._arrived:
            self._loop = loop
        try:
            self._connection = _Connection(
                self._parameters,
                self._feed,
                on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
                on_open_error_callback=lambda _, error: self._end(said(error)),
                on_close_callback=lambda _, reason: self._end(said(reason)),
                custom_ioloop=loop,
            )
            loop.start()
        except Exception as error:
            self._end(said(error))  # the next call raises it: a thread has no caller
        finally:
            with self._arrived:
                self._ended = self._ended or "the receiver has ended"
                self._loop = None
                self._arrived.notify_all()
            loop.close()

    def _opened(self, channel: Any) -> None:
        if self._leases and not (channel.connection.server_capabilities or {}).get("leases"):
            self._end("this broker has no leases: leave the option leases out")
            return
        self._channel = channel
        channel.add_on_close_callback(lambda _, reason: self._end(said(reason)))
        channel.add_on_cancel_callback(lambda _: self._end("the broker has cancelled the consumer"))
        self._declare(self._declared)

    def _declare(self, callback: Callable[[Any], None]) -> None:
        self._channel.queue_declare(self.queue, passive=True, callback=callback)

    def _declared(self, frame: Any) -> None:
        self.ready = frame.method.message_count
        if not self._prefetch:
            self._begun()
            return
        self._channel.basic_qos(prefetch_count=self._prefetch)
        self._tag = self._channel.basic_consume(
            self.queue, _unused, arguments=self._arguments, callback=lambda _: self._begun()
        )

    def _begun(self) -> None:
        with self._arrived:
            self._consuming = True
            self._arrived.notify_all()

    def _feed(self, data: bytes) -> None:
        self._intake.feed(data)
        if 0 < self._wanted <= len(self._deliveries):
            with self._arrived:
                self._arrived.notify_all()

    def _answer(self, answers: list[T], answer: T) -> None:
        with self._arrived:
            answers.append(answer)
            self._arrived.notify_all()

    def _end(self, reason: str) -> None:
        with self._arrived:
            self._ended = self._ended or reason
            self._arrived.notify_all()
        self._close()

    def _close(self) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.close()
            self._loop.call_later(CLOSE_SECONDS, self._loop.stop)
        elif self._connection is None or not self._connection.is_closing:
            self._loop.stop()


def _unused(*_: object) -> None:
    """The callback that pika requires; it is never called."""
