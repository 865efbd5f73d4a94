"""Clients that read like Spark's tasks and driver: a batch by a lease, perhaps repeatedly, then acked as a whole."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from tests.faults.actor import arrived
from tests.faults.consumers import Reader
from tests.faults.events import Done, How, Message, Settled
from tests.frames import Event
from tests.raw import Channel, Client


class Leaser(Reader):
    """A reader by leases. Until a lease is acked, every read must bring the same messages as the first whole read.

    A read is whole when its basic.cancel is answered. A read that breaks off earlier is repeated with the same id, and
    its deliveries do not count.
    """

    def __init__(self, *args: Any, rows: int = 30, reads: int = 2) -> None:
        """`rows`: the most messages of a lease; `reads`: the most times that it is read once more."""
        super().__init__(*args)
        self.rows = rows
        self.reads = reads
        self.number = 0
        self.begun = False
        self.batch: list[Message] | None = None
        """The messages of the lease, once known."""
        self.again = 0

    @property
    def lease(self) -> str:
        """The id of the present lease."""
        return f"{self.name}/{self.number}"

    def work(self, client: Client) -> None:
        """Read leases, some repeatedly, and end them, until `stopping`."""
        channel = client.channel()
        channel.call("basic.qos", prefetch_count=self.rows)
        while self.begun or not self.stopping.is_set():
            if self.batch is None:
                self.begun = True
                self.batch = self.read(client, channel)
                self.again = self.chance.randint(0, self.reads)
            elif self.again:
                self.again -= 1
                self.compare(self.batch, self.read(client, channel))
            else:
                self.end(channel, self.batch)

    def read(self, client: Client, channel: Channel) -> list[Message]:
        """Return the messages of the lease; one without messages takes those that are ready."""
        self.hand.clear()
        lease = {"x-lease": self.lease}
        channel.call("basic.consume", queue=self.queue.name, consumer_tag=self.name, arguments=lease)
        until = time.monotonic() + self.chance.random() * 0.2
        while (left := until - time.monotonic()) > 0:
            self.note_unless_cancelled(arrived(channel, left))
        if self.chance.random() < 0.1:
            client.kill()
            raise ConnectionError("its own doing")
        channel.send("basic.cancel", consumer_tag=self.name)
        channel.take("basic.cancel-ok")
        self.note_unless_cancelled(channel.client.line(channel.number))
        return list(self.hand.values())

    def note_unless_cancelled(self, line: deque[Event]) -> None:
        """Process events. ConnectionError if the broker has cancelled the consumer, so that the read is not whole."""
        if any(event.name == "basic.cancel" for event in line):
            raise ConnectionError("cancelled: another connection has the lease, or its shard had not stored a message")
        self.note(line)

    def compare(self, batch: list[Message], found: list[Message]) -> None:
        """Report differences between two reads of a lease."""
        missing, more = set(batch) - set(found), set(found) - set(batch)
        for message in missing | more:
            self.wrong(f"{message} is {'not any more' if message in missing else 'new'} in {self.lease}", message)
        if len(found) != len(set(found)):
            self.wrong(f"{self.lease} has brought something twice in one read")

    def end(self, channel: Channel, batch: list[Message]) -> None:
        """Ack the whole lease; the ack holds for good once it is answered."""
        queue = self.queue.name
        self.record.note_all(Settled(queue, self.name, self.incarnation, message, How.ACK) for message in batch)
        arguments = {"x-lease": self.lease, "x-lease-end": "ack"}
        channel.call("basic.consume", queue=queue, consumer_tag="end", arguments=arguments)
        self.record.note_all(Done(queue, message, How.ACK) for message in batch)
        channel.call("basic.cancel", consumer_tag="end")
        self.number += 1
        self.begun, self.batch = False, None
