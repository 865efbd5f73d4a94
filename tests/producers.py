"""Many flat-out producers in one thread, and a ledger that checks that all their messages arrive in order."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from tests.frames import method_frame, publish_frames
from tests.raw import Address, Client, HungUp
from tests.waiting import PATIENCE

STAMP = struct.Struct(">II")
"""The beginning of each body: the number of the producer, and the number of the message of that producer."""


class Producer:
    """One connection with one channel that publishes the same message, numbered, up to `count` times."""

    def __init__(
        self, client: Client, number: int, routing_key: str, size: int, count: int, batch: int, persistent: bool
    ) -> None:
        self.client = client
        self.channel = client.channel()
        self.number = number
        self.count = count
        self.written = 0
        """Messages handed to the socket, the last one perhaps in part."""
        self.flow_stops = 0
        self.held = False
        self.blocked = False
        """Whether the broker has sent connection.blocked and no connection.unblocked since."""
        self.ended: Exception | None = None
        options = {"delivery_mode": 2} if persistent else {}
        self._message = publish_frames(1, bytes(size), routing_key=routing_key, **options)
        self._stamp_at = len(self._message) - 1 - size
        self._batch = batch
        self._pending = memoryview(b"")

    @property
    def done(self) -> bool:
        """Whether all messages have been written to the socket."""
        return self.written == self.count and not self._pending

    @property
    def wants_to_write(self) -> bool:
        """Whether there is something to write. A message once begun is finished even while the producer is held
        (specification: channel.flow).
        """
        return bool(self._pending) or not (self.held or self.done)

    def write(self) -> None:
        """Write all that the socket accepts now."""
        if not self._pending:
            self._pending = memoryview(self._next_batch())
        try:
            self._pending = self._pending[self.client.socket.send(self._pending, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return

    def _next_batch(self) -> bytearray:
        count = min(self._batch, self.count - self.written)
        data = bytearray(self._message * count)
        for at in range(count):
            STAMP.pack_into(data, at * len(self._message) + self._stamp_at, self.number, self.written + at)
        self.written += count
        return data

    def read(self, honour: bool) -> None:
        """Process the broker's events; with `honour`, answer channel.flow and obey it."""
        self.client.receive()
        control = self.client.line(0)
        for event in [event for event in control if event.name in ("connection.blocked", "connection.unblocked")]:
            control.remove(event)
            self.blocked = event.name == "connection.blocked"
        line = self.client.line(self.channel.number)
        for event in [event for event in line if event.name == "channel.flow"]:
            line.remove(event)
            self.flow_stops += not event.active
            if honour:
                self.held = not event.active
                answer = method_frame("channel.flow-ok", self.channel.number, active=event.active)
                self._pending = memoryview(bytes(self._pending) + answer)


class Producers:
    """Producers that publish flat out, in a thread of their own, inside the `with` block."""

    def __init__(
        self,
        address: Address,
        routing_keys: Sequence[str],
        *,
        size: int = 256,
        count: int = 1 << 31,
        batch: int = 50,
        honour: bool = False,
        persistent: bool = False,
        properties: Mapping[str, str] | None = None,
        clients: Sequence[Client] = (),
    ) -> None:
        """Connect one producer for each routing key, with `count` messages each.

        `honour`: stop for channel.flow, as the client named by `properties` would. `clients`: connections to use
        instead of new ones.
        """
        self.honour = honour
        clients = clients or [Client.connect(address, properties=properties) for _ in routing_keys]
        self.producers = [
            Producer(client, number, key, size, count, batch, persistent)
            for number, (client, key) in enumerate(zip(clients, routing_keys, strict=True))
        ]
        self._stop = threading.Event()
        self._finish = threading.Event()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        for producer in self.producers:
            producer.client.socket.close()

    @property
    def written(self) -> int:
        """Messages handed to the sockets by all producers."""
        return sum(producer.written for producer in self.producers)

    @property
    def flow_stops(self) -> int:
        """The number of channel.flow stops received by all producers."""
        return sum(producer.flow_stops for producer in self.producers)

    @property
    def done(self) -> bool:
        """Whether all messages of all producers have been written."""
        return all(producer.done for producer in self.producers)

    @property
    def blocked(self) -> bool:
        """Whether all producers are blocked by connection.blocked."""
        return all(producer.blocked for producer in self.producers)

    @property
    def alive(self) -> int:
        """The number of connections that the broker has not closed."""
        return sum(producer.ended is None for producer in self.producers)

    def finish(self) -> None:
        """Begin no new messages; finish those begun."""
        self._finish.set()  # the thread does the rest: in the middle of a batch the count is unknown
        assert self._finished.wait(PATIENCE)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for producer in self.producers:
                selector.register(producer.client.socket, selectors.EVENT_READ, producer)
            while not self._stop.is_set():
                if self._finish.is_set() and not self._finished.is_set():
                    for producer in self.producers:
                        producer.count = producer.written
                    self._finished.set()
                for producer in self.producers:
                    self._watch(selector, producer)
                for key, events in selector.select(0.02):
                    self._serve(key.data, events)

    def _watch(self, selector: selectors.BaseSelector, producer: Producer) -> None:
        """Register for the events that the producer can use: polling a writable socket without need would spin."""
        if producer.ended:
            return
        wanted = selectors.EVENT_READ
        if producer.wants_to_write:
            wanted |= selectors.EVENT_WRITE
        if selector.get_key(producer.client.socket).events != wanted:
            selector.modify(producer.client.socket, wanted, producer)

    def _serve(self, producer: Producer, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                producer.read(self.honour)
            if events & selectors.EVENT_WRITE:
                producer.write()
        except (HungUp, ConnectionError) as ended:
            producer.ended = ended


class Ledger:
    """The messages of producers that have arrived: each once, and each producer's in order."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.total = 0

    def note(self, body: bytes) -> None:
        """Enter one message. AssertionError on a gap, a repetition or a reordering."""
        producer, number = STAMP.unpack_from(body)
        expected = self.next.get(producer, 0)
        assert number == expected, f"producer {producer}: message {number} where {expected} was due"
        self.next[producer] = expected + 1
        self.total += 1


class Drain:
    """A consumer that enters the messages of a queue in a ledger and acknowledges them in batches."""

    def __init__(self, client: Client, queue: str, prefetch: int = 500, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.prefetch = prefetch
        self.channel = client.channel()
        self.channel.call("basic.qos", prefetch_count=prefetch)
        self.channel.call("basic.consume", queue=queue, consumer_tag="drain")

    def take(self, count: int, timeout: float = PATIENCE) -> None:
        """Consume and acknowledge `count` messages, waiting at most `timeout` seconds for each."""
        every = max(self.prefetch // 4, 1)
        for number in range(1, count + 1):
            event = self.channel.take("basic.deliver", timeout=timeout)
            self.ledger.note(event.body)
            if number % every == 0 or number == count:
                self.channel.send("basic.ack", delivery_tag=event.delivery_tag, multiple=True)
