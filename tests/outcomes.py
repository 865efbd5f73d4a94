"""Common checks on a raw channel: the confirms of publishes, and the messages in a queue."""

from __future__ import annotations

from collections.abc import Iterable

from tests.frames import Event
from tests.raw import Channel
from tests.waiting import PATIENCE, wait_for


class Confirms:
    """The outcome of each publish on a channel in confirm mode, gathered from acks and nacks (multiple or not)."""

    def __init__(self, channel: Channel) -> None:
        """Switch the channel to confirm mode."""
        self.channel = channel
        self.published = 0
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        channel.call("confirm.select")

    def publish(self, body: bytes, routing_key: str = "", exchange: str = "", **options: object) -> int:
        """Publish; return the number that its confirm will carry."""
        self.channel.publish(body, routing_key, exchange, **options)  # type: ignore[arg-type]
        self.published += 1
        return self.published

    def gather(self) -> set[int]:
        """Process the confirms that have arrived; return the numbers without an outcome."""
        for event in self.channel.pending():
            if event.name in ("basic.ack", "basic.nack"):
                self._note(event.name, event.delivery_tag, event.multiple)
                self.channel.take(event.name)
        return self.open

    def wait(self, timeout: float = PATIENCE) -> None:
        """Wait until every publish has its outcome."""
        while self.gather():
            event = self.channel.take("basic.ack", "basic.nack", timeout=timeout)
            self._note(event.name, event.delivery_tag, event.multiple)

    @property
    def open(self) -> set[int]:
        """The numbers without an outcome."""
        return set(range(1, self.published + 1)) - self.acked - self.nacked

    def _note(self, name: str, tag: int, multiple: bool) -> None:
        numbers = {number for number in self.open if number <= tag} if multiple else {tag}
        assert numbers, f"{name}({tag}, {multiple}) settles nothing"
        assert tag <= self.published, f"{name}({tag}) of {self.published} published"
        assert not numbers & (self.acked | self.nacked), f"{tag} settled twice"
        (self.acked if name == "basic.ack" else self.nacked).update(numbers)


def wait_depth(channel: Channel, queue: str, depth: int) -> None:
    """Wait until the queue has `depth` ready messages. A count may be answered before publishes in flight arrive."""
    wait_for(lambda: channel.depth(queue) == depth, what=f"{depth} messages in {queue}")


def wait_get(channel: Channel, queue: str, no_ack: bool = True) -> Event:
    """Return the next message of a queue, by basic.get; wait until there is one."""
    return wait_for(lambda: channel.get(queue, no_ack), what=f"a message in {queue}")


def bodies(channel: Channel, queue: str) -> list[bytes]:
    """Return the bodies of all ready messages, by basic.get."""
    found = []
    while event := channel.get(queue):
        found.append(event.body)
    return found


def jain(shares: Iterable[float]) -> float:
    """Return Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything."""
    found = list(shares)
    return sum(found) ** 2 / (len(found) * sum(share * share for share in found))
