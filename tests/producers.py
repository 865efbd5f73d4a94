"""Many flat-out producers in one thread, and a ledger that checks that their messages arrive whole and in order."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from tests.frames import publish_frames
from tests.raw import Address, Client, HungUp
from tests.waiting import PATIENCE

STAMP = struct.Struct(">II")
"""The beginning of each body: the number of its producer, and of the message among those of the producer."""


class Producer:
    """One connection with one channel that publishes the same message, numbered, for as long as it can."""

    def __init__(
        self, client: Client, number: int, routing_key: str, size: int, count: int, batch: int, persistent: bool
    ) -> None:
        self.client = client
        self.channel = client.channel()
        self.number = number
        self.count = count
        self.written = 0
        """Messages handed to the socket, the last of them perhaps in part."""
        self.flow_stops = 0
        self.held = False
        self.blocked = False
        """Whether the broker has sent connection.blocked, and not connection.unblocked since."""
        self.ended: Exception | None = None
        options = {"delivery_mode": 2} if persistent else {}
        self._message = publish_frames(1, bytes(size), routing_key=routing_key, **options)
        self._stamp_at = len(self._message) - 1 - size
        self._batch = batch
        self._pending = memoryview(b"")

    @property
    def done(self) -> bool:
        """Whether all its messages have left for the socket."""
        return self.written == self.count and not self._pending

    @property
    def wants_to_write(self) -> bool:
        """Whether it has something to write. A message once begun is finished even while held (specification:
        channel.flow).
        """
        return bool(self._pending) or not (self.held or self.done)

    def write(self) -> None:
        """Write as much as the socket accepts now."""
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
        """Process the broker's events; `honour`: answer Channel.Flow and obey it."""
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
                self.client.send("channel.flow-ok", self.channel.number, active=event.active)


class Producers:
    """Producers that publish flat out in a thread of their own from entering `with` to its end."""

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
        """One producer for each routing key, `count` messages each; connected when this returns.

        `honour`: stop for Channel.Flow, as the client named by `properties` would. `clients`: the clients to use, if
        that matters.
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
        """Channel.Flow stops received by all producers."""
        return sum(producer.flow_stops for producer in self.producers)

    @property
    def done(self) -> bool:
        """Whether all messages of all producers have left."""
        return all(producer.done for producer in self.producers)

    @property
    def blocked(self) -> bool:
        """Whether all producers have got connection.blocked."""
        return all(producer.blocked for producer in self.producers)

    @property
    def alive(self) -> int:
        """The number of connections that the broker has not closed."""
        return sum(producer.ended is None for producer in self.producers)

    def finish(self) -> None:
        """Begin no new messages, and finish those begun."""
        self._finish.set()  # the thread does it: in the middle of a batch the count is not known
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
        """Wait for the events the producer can use; a socket that always accepts more must not be polled for writing in
        vain.
        """
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
    """The arrived messages of the producers: each once, each producer's in order."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.total = 0

    def note(self, body: bytes) -> None:
        """Enter one message. AssertionError for a gap, a repetition or a change of order."""
        producer, number = STAMP.unpack_from(body)
        expected = self.next.get(producer, 0)
        assert number == expected, f"producer {producer}: message {number} where {expected} was due"
        self.next[producer] = expected + 1
        self.total += 1


class Drain:
    """Consumes a queue and keeps the ledger; acknowledges in batches."""

    def __init__(self, client: Client, queue: str, prefetch: int = 500, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.prefetch = prefetch
        self.channel = client.channel()
        self.channel.call("basic.qos", prefetch_count=prefetch)
        self.channel.call("basic.consume", queue=queue, consumer_tag="drain")

    def take(self, count: int, timeout: float = PATIENCE) -> None:
        """Consume and acknowledge `count` messages; no single one may take longer than `timeout` seconds."""
        every = max(self.prefetch // 4, 1)
        for number in range(1, count + 1):
            event = self.channel.take("basic.deliver", timeout=timeout)
            self.ledger.note(event.body)
            if number % every == 0 or number == count:
                self.channel.send("basic.ack", delivery_tag=event.delivery_tag, multiple=True)
