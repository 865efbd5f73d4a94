"""A client whose auto-delete queues must go when it leaves them."""

from __future__ import annotations

from typing import Any

from tests.faults.actor import Actor, arrived
from tests.faults.declarer import found
from tests.raw import Client
from tests.waiting import wait_for


class Guest(Actor):
    """Consumes from one queue after the other, and leaves each in one of the possible ways."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.number = 0
        self.left: list[str] = []
        """Queues that the guest has consumed from."""
        self.unsure: list[str] = []
        """Queues that it may have declared, but perhaps not consumed from."""

    def work(self, client: Client) -> None:
        """Consume and leave queues until `stopping`."""
        while not self.stopping.is_set():
            self.number += 1
            name = f"guest-{self.number}"
            self.unsure.append(name)
            channel = client.channel()
            channel.call("queue.declare", queue=name, auto_delete=True)
            channel.call("basic.consume", queue=name, consumer_tag="c", no_ack=True)
            self.left.append(self.unsure.pop())
            channel.publish(b"m", name)
            arrived(channel, self.chance.random() * 0.2).clear()
            match self.chance.choice(["cancel", "close", "break"]):
                case "cancel":
                    channel.call("basic.cancel", consumer_tag="c")
                case "break":
                    client.kill()
                    raise ConnectionError("its own doing")
            channel.call("channel.close", code=200, text="bye")

    def check(self) -> None:
        """Report queues that still exist a while after they were left. No client is at work meanwhile."""
        with self.node.connect() as client:

            def gone() -> bool:
                self.left = [name for name in self.left if found(client.channel(), name)]
                return not self.left

            try:
                wait_for(gone, what="auto-delete queues gone")
            except AssertionError as error:
                self.wrong(f"{self.left} were left by their last consumers: {error}")
            channel = client.channel()
            for name in self.unsure:
                channel.call("queue.delete", queue=name)
        self.left.clear()
        self.unsure.clear()
