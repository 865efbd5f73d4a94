"""Readers: clients that record each delivery and settle it in one of the possible ways."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from tests.faults.actor import Actor, arrived
from tests.faults.events import Delivered, Done, How, Message, Record, Settled
from tests.faults.node import Node
from tests.faults.plan import MARKERS, QueuePlan
from tests.faults.publishers import PERSISTENT
from tests.frames import Event
from tests.raw import Channel, Client
from tests.waiting import PATIENCE, wait_for


class Reader(Actor):
    """The common part of all readers of a queue: unacked messages (`hand`) and the safety of settlements (`Done`)."""

    def __init__(self, node: Node, record: Record, name: str, seed: object, queue: QueuePlan, marker: str) -> None:
        """`marker`: a queue of the same shard, for publishes that show settlements to be safe."""
        super().__init__(node, record, name, seed)
        self.queue = queue
        self.marker = marker
        self.hand: dict[int, Message] = {}
        self._unsafe: list[Done] = []
        self._since = 0
        """The value of `moves` when the first of `_unsafe` was settled."""
        self._markers: deque[tuple[int, list[Done]]] = deque()
        """The settlements that each outstanding confirm will show to be safe, oldest first."""

    def open(self, client: Client) -> Channel:
        """Return a channel with confirms on a new connection, on which nothing is unacked."""
        self.hand.clear()
        self._unsafe.clear()
        self._markers.clear()
        self._first_marker = 1
        channel = client.channel()
        channel.call("confirm.select")
        return channel

    def take(self, event: Event) -> None:
        """Record a delivery, or the message of a basic.get."""
        try:
            message = Message.of_body(event.body)
        except ValueError as error:
            self.wrong(str(error))
            return
        self.record.note(Delivered(self.queue.name, self.name, self.incarnation, message, event.redelivered))
        self.hand[event.delivery_tag] = message

    def settle(self, channel: Channel, tags: list[int], how: How, multiple: bool = False) -> None:
        """Settle tags by one method each or, if they are all tags up to the last (`multiple`), by one method."""
        messages = [self.hand.pop(tag) for tag in tags]
        self.record.note_all(
            Settled(self.queue.name, self.name, self.incarnation, message, how) for message in messages
        )
        if how is not How.REQUEUE:
            self._since = self._since if self._unsafe else self.moves
            self._unsafe += [Done(self.queue.name, message, how) for message in messages]
        for tag in tags[-1:] if multiple else tags:
            if how is How.ACK:
                channel.send("basic.ack", delivery_tag=tag, multiple=multiple)
            elif multiple or self.chance.random() < 0.5:
                channel.send("basic.nack", delivery_tag=tag, multiple=multiple, requeue=how is How.REQUEUE)
            else:
                channel.send("basic.reject", delivery_tag=tag, requeue=how is How.REQUEUE)

    @property
    def moves(self) -> int:
        """The number of beginnings and ends of moves of the queue."""
        return self.node.moved[self.queue.name] if self.node.moved is not None else 0

    def mark(self, channel: Channel) -> None:
        """Publish a marker behind the settlements, to all shards if queues move."""
        if self._unsafe:
            where = (self.marker, "") if self.node.moved is None else (MARKERS, MARKERS)
            channel.publish(b"", *where, delivery_mode=PERSISTENT)
            self._markers.append((self._since, self._unsafe))
            self._unsafe = []

    def confirmed(self, event: Event) -> None:
        """Record that all settlements before a confirmed marker are safe, unless the queue was moving meanwhile."""
        while self._markers and self._first_marker <= event.delivery_tag:
            since, settled = self._markers.popleft()
            if since == self.moves and since % 2 == 0:
                self.record.note_all(settled)
            else:
                self._since = self.moves
                self._unsafe = settled + self._unsafe
            self._first_marker += 1

    def wait_safe(self, channel: Channel) -> None:
        """Wait until all settlements are safe. AssertionError if they do not become safe."""
        self.mark(channel)

        def safe() -> bool:
            self.note(arrived(channel, 0.05))
            self.mark(channel)
            return not self._markers

        wait_for(safe, PATIENCE, f"{self.name}: settlements kept", interval=0)

    def note(self, line: deque[Event]) -> None:
        """Process the events that have arrived."""
        while line:
            event = line.popleft()
            if event.name == "basic.deliver":
                self.take(event)
            elif event.name == "basic.ack":
                self.confirmed(event)
            else:
                self.wrong(f"{event.name}({event.arguments})")


class Consumer(Reader):
    """A reader by basic.consume, with acks and rejects in all possible ways."""

    def __init__(
        self, *args: Any, prefetch: int = 40, rejects: float = 0.0, requeues: float = 0.05, pause: float = 0.02
    ) -> None:
        """`rejects`, `requeues`: their probabilities; `pause`: the longest pause before settling, in seconds."""
        super().__init__(*args)
        self.prefetch = prefetch
        self.rejects = rejects
        self.requeues = requeues
        self.pause = pause

    def work(self, client: Client) -> None:
        """Consume until `stopping`, or until a random time, then kill the connection."""
        channel = self.open(client)
        channel.call("basic.qos", prefetch_count=self.prefetch)
        channel.call("basic.consume", queue=self.queue.name, consumer_tag=self.name)
        until = self.chance.uniform(0.3, 5.0) + time.monotonic()
        while not self.stopping.is_set():
            self.note(arrived(channel, self.chance.random() * self.pause))
            if self.hand:
                self.act(channel)
            if self.chance.random() < 0.15:
                self.mark(channel)
            if time.monotonic() > until:
                client.kill()
                raise ConnectionError("its own doing")
        self.leave(channel)

    def act(self, channel: Channel) -> None:
        """Settle some of the unacked messages, or none."""
        tags = list(self.hand)
        how = self.choose()
        if self.chance.random() < 0.5:
            self.settle(channel, tags[: self.chance.randint(1, len(tags))], how, multiple=True)
        else:
            few = self.chance.sample(tags, self.chance.randint(0, min(len(tags), 5)))
            self.settle(channel, sorted(few) if self.chance.random() < 0.7 else few, how)

    def choose(self) -> How:
        """Return a random way to settle."""
        dice = self.chance.random()
        return How.REJECT if dice < self.rejects else How.REQUEUE if dice < self.rejects + self.requeues else How.ACK

    def leave(self, channel: Channel) -> None:
        """Cancel in order; leave unacked messages to the queue, or ack them."""
        channel.send("basic.cancel", consumer_tag=self.name)
        channel.take("basic.cancel-ok")
        self.note(channel.client.line(channel.number))
        if self.hand and self.chance.random() < 0.5:
            self.settle(channel, list(self.hand), How.ACK, multiple=True)
        self.wait_safe(channel)


class Getter(Reader):
    """A reader by basic.get that acks some messages later."""

    def work(self, client: Client) -> None:
        """Get messages until `stopping`."""
        channel = self.open(client)
        while not self.stopping.wait(self.chance.random() * 0.03):
            channel.send("basic.get", queue=self.queue.name)
            event = channel.take("basic.get-ok", "basic.get-empty")
            if event.name == "basic.get-ok":
                self.take(event)
            if self.hand and self.chance.random() < 0.3:
                self.settle(channel, list(self.hand), How.ACK, multiple=True)
                self.mark(channel)
            self.note(arrived(channel, 0))
        self.wait_safe(channel)
