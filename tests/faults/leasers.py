"""Clients that read as Spark's tasks and driver do: a batch by a lease, perhaps repeatedly, then acked as a whole."""

from __future__ import annotations

import time
from typing import Any

from tests.faults.actor import arrived
from tests.faults.consumers import Reader
from tests.faults.events import Done, How, Message, Settled
from tests.raw import Channel, Client


class Leaser(Reader):
    """A reader by leases. Every later read of a lease must bring what its first whole read has brought, until it is
    acked.

    A read is whole when its basic.cancel is answered. A read that breaks off before is repeated with the same id; its
    deliveries count for nothing.
    """

    def __init__(self, *args: Any, rows: int = 30, reads: int = 2) -> None:
        """`rows`: the most messages of a lease; `reads`: how often it may be read once more, at most."""
        super().__init__(*args)
        self.rows = rows
        self.reads = reads
        self.number = 0
        self.begun = False
        self.batch: list[Message] | None = None
        """The messages of the lease, once they are known."""
        self.again = 0

    @property
    def lease(self) -> str:
        """The id of the present lease."""
        return f"{self.name}/{self.number}"

    def session(self, client: Client) -> None:
        """Read leases, some repeatedly, and end them, until told to stop."""
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
        """Return the messages of the lease; if it has none, those that are ready, which it has from now on."""
        self.hand.clear()
        lease = {"x-lease": self.lease}
        channel.call("basic.consume", queue=self.queue.name, consumer_tag=self.name, arguments=lease)
        until = time.monotonic() + self.chance.random() * 0.2
        while (left := until - time.monotonic()) > 0:
            self.note(arrived(channel, left))
        if self.chance.random() < 0.1:
            client.kill()
            raise ConnectionError("its own doing")
        channel.send("basic.cancel", consumer_tag=self.name)
        channel.take("basic.cancel-ok")
        line = channel.client.line(channel.number)
        if any(event.name == "basic.cancel" for event in line):
            raise ConnectionError("a connection before this one has come back with the lease")
        self.note(line)
        return list(self.hand.values())

    def compare(self, batch: list[Message], found: list[Message]) -> None:
        """Report differences between two reads of a lease."""
        missing, more = set(batch) - set(found), set(found) - set(batch)
        for message in missing | more:
            self.wrong(f"{message} is {'not any more' if message in missing else 'new'} in {self.lease}", message)
        if len(found) != len(set(found)):
            self.wrong(f"{self.lease} has brought something twice in one read")

    def end(self, channel: Channel, batch: list[Message]) -> None:
        """Ack all of the lease, for good when that is answered."""
        queue = self.queue.name
        self.record.note_all(Settled(queue, self.name, self.life, message, How.ACK) for message in batch)
        arguments = {"x-lease": self.lease, "x-lease-end": "ack"}
        channel.call("basic.consume", queue=queue, consumer_tag="end", arguments=arguments)
        self.record.note_all(Done(queue, message, How.ACK) for message in batch)
        channel.call("basic.cancel", consumer_tag="end")
        self.number += 1
        self.begun, self.batch = False, None
