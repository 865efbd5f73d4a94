"""A client that declares and deletes durable queues and knows which of them must exist."""

from __future__ import annotations

from typing import Any

from tests.faults.actor import Actor
from tests.raw import Channel, Client

EXCHANGE = "declared"
KEPT = 12
"""About this many queues exist at a time."""


class Declarer(Actor):
    """Declares and deletes queues. The queue of an operation cut off by a fault is not checked, because the operation
    may have been carried out or not.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.number = 0
        self.there: list[str] = []
        self.gone: list[str] = []

    def work(self, client: Client) -> None:
        """Declare, bind and delete queues at random until `stopping`."""
        channel = client.channel()
        channel.call("exchange.declare", exchange=EXCHANGE, type="topic", durable=True)
        while not self.stopping.wait(self.chance.random() * 0.1):
            if len(self.there) < self.chance.randint(1, 2 * KEPT):
                self.number += 1
                name = f"declared-{self.number}"
                self._declare(channel, name)
                channel.call("queue.bind", queue=name, exchange=EXCHANGE, routing_key=f"{name}.#")
                self.there.append(name)
            else:
                name = self.there.pop(self.chance.randrange(len(self.there)))
                channel.call("queue.delete", queue=name)
                self.gone.append(name)

    def _declare(self, channel: Channel, name: str) -> None:
        arguments = {"x-max-length": 10 + self.number % 7, "x-overflow": "drop-head"}
        channel.call("queue.declare", queue=name, durable=True, arguments=arguments)

    def check(self) -> None:
        """Report queues whose existence or binding contradicts the broker's answers. No client declares meanwhile."""
        with self.node.connect() as client:
            channel = client.channel()
            for name in self.there:
                if not found(channel, name):
                    self.wrong(f"{name} was declared and is not there")
                    channel = client.channel()
                    continue
                channel.publish(name.encode(), f"{name}.a.b", EXCHANGE, mandatory=True)
                channel.call("queue.purge", queue=name)
                for _ in [event for event in channel.pending() if event.name == "basic.return"]:
                    self.wrong(f"{name} was bound and is not any more")
                    channel.take("basic.return")
            for name in self.gone:
                if found(channel, name):
                    self.wrong(f"{name} was deleted and is there")
                else:
                    channel = client.channel()
        self.gone.clear()


def found(channel: Channel, name: str) -> bool:
    """Whether a queue exists. If not, the channel is closed."""
    channel.send("queue.declare", queue=name, passive=True)
    event = channel.take("queue.declare-ok", "channel.close")
    if event.name == "channel.close":
        assert event.code == 404
        channel.send("channel.close-ok")
    return event.name == "queue.declare-ok"
