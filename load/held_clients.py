"""Producers that publish flat out whatever the broker asks, reacting as client libraries do; one thread runs them all.

Each is a bare socket that behaves as a library does (`load.peer`): py-amqp's gives up its connection when its kernel
does (TCP_USER_TIMEOUT), php-amqplib and the Go client when a write has waited too long, the others never. Java's stops
for Channel.Flow. One kind also consumes, and acks each delivery behind its publishes. A producer whose connection is
lost or closed comes back after a second as a new producer.

A body begins with the numbers of the producer and of the message. Publishes are confirmed, and no confirm is waited
for.
"""

from __future__ import annotations

import selectors
import struct
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Self

from load.confirms import ConfirmWindow
from load.frames import (
    BASIC_ACK,
    BASIC_CONSUME,
    BASIC_CONSUME_OK,
    BASIC_QOS,
    BASIC_QOS_OK,
    CONFIRM_SELECT,
    CONFIRM_SELECT_OK,
    ack_up_to,
    consume,
    publish,
    qos,
)
from load.peer import (
    BASIC_DELIVER,
    BASIC_NACK,
    CHANNEL_FLOW,
    CHANNEL_FLOW_OK,
    GO,
    HEARTBEAT,
    JAVA,
    PHP,
    PY_AMQP,
    UNKNOWN,
    Kind,
    Peer,
    delivery_tag,
    settled_up_to,
    wire_of,
)
from load.target import Target
from load.wire import CONNECTION_CLOSE, CONNECTION_CLOSE_OK, Method, Wire, method_frame

STAMP: Final = struct.Struct("!II")
RECONNECT_SECONDS = 1.0
LOGINS_AT_ONCE = 8
BATCH = 8
PREFETCH = 4

CONSUMING: Final = replace(UNKNOWN, name="consuming")
"""The kind that also consumes."""
KINDS: Final = (PY_AMQP, PHP, GO, JAVA, CONSUMING)


@dataclass
class Record:
    """The results of the producers: `confirmed` has the numbers of confirmed messages (from 0) by producer; `written`
    is bytes written; `ends` counts how connections ended, by kind and reason.
    """

    confirmed: dict[int, set[int]] = field(default_factory=dict)
    written: int = 0
    connections: int = 0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)


class Producer(Peer):
    """One connection of a producer."""

    def __init__(self, kind: Kind, number: int, wire: Wire, queue: str, size: int) -> None:
        super().__init__(wire)
        self.kind = kind
        self.number = number
        self.message = publish(queue, bytes(size))
        self.stamp_at = len(self.message) - 1 - size
        self.answers = b""
        self.window = ConfirmWindow()
        self.confirmed: set[int] = set()
        self.count = 0
        self.stopped = False
        self.progress = time.monotonic()

    def write(self) -> int:
        """Write what the socket accepts and return the number of bytes. OSError if the connection is lost."""
        sent = self.send(b"" if self.pending else self.batch())
        if sent:
            self.progress = time.monotonic()
        return sent

    def batch(self) -> bytes:
        """Return the next bytes to write: pending answers, and a batch of publishes unless Channel.Flow forbids it."""
        answers, self.answers = self.answers, b""
        if self.stopped:  # the broker closes a connection that stays silent
            answers += HEARTBEAT * self.heartbeats
            self.heartbeats = 0
            return answers
        data = bytearray(self.message * BATCH)
        for at in range(BATCH):
            STAMP.pack_into(data, at * len(self.message) + self.stamp_at, self.number, self.count + at)
            self.window.publish()
        self.count += BATCH
        return answers + data

    def read(self) -> str:
        """Process what the broker sent; return why the connection ends, if the broker closes it. OSError if it
        breaks.
        """
        for method, arguments in self.methods():
            if method == CONNECTION_CLOSE:
                with suppress(OSError):
                    self.socket.send(method_frame(0, CONNECTION_CLOSE_OK))
                return f"closed with {int.from_bytes(arguments[:2], 'big')}"
            self.on_method(method, arguments)
        return ""

    def on_method(self, method: Method, arguments: bytes) -> None:
        """Process one method."""
        if method in (BASIC_ACK, BASIC_NACK):
            settled = self.window.settle(*settled_up_to(arguments))
            if method == BASIC_ACK:
                self.confirmed.update(tag - 1 for first, end in settled for tag in range(first, end))
        elif method == CHANNEL_FLOW and self.kind.honours_flow:
            self.stopped = not arguments[0]
            self.answers += method_frame(1, CHANNEL_FLOW_OK, arguments[:1])
        elif method == BASIC_DELIVER:
            self.answers += ack_up_to(delivery_tag(arguments))

    def gives_up(self, now: float) -> bool:
        """Whether the library gives up its connection by now, as a write has waited too long."""
        return bool(self.kind.write_seconds and self.pending and now - self.progress > self.kind.write_seconds)


class HeldClients:
    """Runs `count` producers, of all kinds in turn, within a `with` block."""

    def __init__(self, target: Target, count: int, queue: str, consumed: str, size: int) -> None:
        self.target, self.queue, self.consumed, self.size = target, queue, consumed, size
        self.record = Record()
        self.kinds = [KINDS[at % len(KINDS)] for at in range(count)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _open(self, kind: Kind) -> tuple[Kind, Wire]:
        wire = wire_of(self.target, kind)
        wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        if kind is CONSUMING:
            wire.call(BASIC_QOS, qos(PREFETCH), BASIC_QOS_OK)
            wire.call(BASIC_CONSUME, consume(self.consumed, True), BASIC_CONSUME_OK)
        return kind, wire

    def _run(self) -> None:
        due = [(0.0, kind) for kind in self.kinds]
        opening: list[tuple[Kind, Future[tuple[Kind, Wire]]]] = []
        with ThreadPoolExecutor(LOGINS_AT_ONCE) as pool, selectors.DefaultSelector() as selector:
            while not self._stop.is_set():
                now = time.monotonic()
                opening += [(kind, pool.submit(self._open, kind)) for at, kind in due if at <= now]
                due = [(at, kind) for at, kind in due if at > now]
                for kind, future in [each for each in opening if each[1].done()]:
                    opening.remove((kind, future))
                    if future.exception() is None:
                        self._begin(selector, *future.result())
                    else:
                        self.record.ends[kind.name, f"not let in: {future.exception()}"] += 1
                        due.append((now + RECONNECT_SECONDS, kind))
                for key, events in selector.select(0.05):
                    end = self._read_and_write(key.data, events)
                    if end:
                        self._end(selector, key.data, end)
                        due.append((now + RECONNECT_SECONDS, key.data.kind))
                for key in list(selector.get_map().values()):
                    if key.data.gives_up(now):
                        self._end(selector, key.data, "gave up")
                        due.append((now + RECONNECT_SECONDS, key.data.kind))
            for key in list(selector.get_map().values()):
                self._end(selector, key.data, "connected to the end")
            for _, future in opening:
                if future.exception() is None:
                    future.result()[1].socket.close()

    def _begin(self, selector: selectors.BaseSelector, kind: Kind, wire: Wire) -> None:
        self.record.connections += 1
        producer = Producer(kind, self.record.connections, wire, self.queue, self.size)
        self.record.confirmed[producer.number] = producer.confirmed
        selector.register(producer.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, producer)

    def _read_and_write(self, producer: Producer, events: int) -> str:
        """Read and write; return why the connection ends, "" if it does not."""
        try:
            if events & selectors.EVENT_READ and (end := producer.read()):
                return end
            if events & selectors.EVENT_WRITE:
                self.record.written += producer.write()
        except OSError as error:
            return f"lost: {error.strerror or error}"
        return ""

    def _end(self, selector: selectors.BaseSelector, producer: Producer, reason: str) -> None:
        selector.unregister(producer.socket)
        producer.socket.close()
        self.record.ends[producer.kind.name, reason] += 1
