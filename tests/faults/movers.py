"""Clients that ack messages of one queue and publish others to a second one, in one transaction."""

from __future__ import annotations

from typing import Any

from tests.faults.actor import arrived
from tests.faults.consumers import Reader
from tests.faults.events import Confirmed, Done, How, Message, Sent, Settled
from tests.faults.publishers import PERSISTENT
from tests.frames import publish_frames
from tests.raw import Client


class Mover(Reader):
    """Moves messages by transactions, which take effect as a whole, whatever shards the queues are on."""

    def __init__(self, *args: Any, target: str) -> None:
        super().__init__(*args)
        self.target = target
        self.number = 0

    def work(self, client: Client) -> None:
        """Move messages until `stopping`."""
        channel = client.channel()
        channel.call("tx.select")
        channel.call("basic.qos", prefetch_count=10)
        channel.call("basic.consume", queue=self.queue.name)
        self.hand.clear()
        while not self.stopping.is_set():
            self.note(arrived(channel, 0.02))
            if not self.hand:
                continue
            tag, origins = max(self.hand), list(self.hand.values())
            self.hand.clear()
            commit = f"{self.name}/{self.number}"
            successors = [self._successor() for _ in origins]
            self.record.note_all(
                Settled(self.queue.name, self.name, self.incarnation, origin, How.ACK) for origin in origins
            )
            self.record.note_all(
                Sent(successor, (self.target,), self.incarnation, commit=commit, origin=origin)
                for successor, origin in zip(successors, origins, strict=True)
            )
            channel.send("basic.ack", delivery_tag=tag, multiple=True)
            for successor in successors:
                body = successor.body(self.chance.randint(0, 500))
                client.write(publish_frames(channel.number, body, "", self.target, True, delivery_mode=PERSISTENT))
            channel.call("tx.commit")
            self.record.note_all(Done(self.queue.name, origin, How.ACK) for origin in origins)
            self.record.note_all(Confirmed(successor) for successor in successors)

    def _successor(self) -> Message:
        self.number += 1
        return Message(self.name, self.number)
