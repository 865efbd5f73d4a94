"""Clients that publish numbered messages, with confirms or in transactions, and record the outcome of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.limits.features import LAST_VALUE_KEY
from tests.faults.actor import Actor, arrived
from tests.faults.events import Confirmed, Message, Record, Refused, Sent
from tests.faults.node import Node
from tests.faults.plan import QueuePlan
from tests.frames import publish_frames
from tests.raw import JAVA, Channel, Client
from tests.waiting import PATIENCE

SMALL = [0] * 4 + [100] * 10 + [1000] * 6
SIZES = [*SMALL, 5000, 20_000, 70_000]
"""Sizes of bodies in bytes: sent in the head of a turn, beside it, or on loan from an acceptor."""
PERSISTENT = 2


class Route(NamedTuple):
    exchange: str
    key: str
    queues: tuple[str, ...]


class Numbered(Actor):
    """A publisher whose messages have ascending numbers."""

    def __init__(
        self,
        node: Node,
        record: Record,
        name: str,
        seed: object,
        *routes: Route,
        sizes: Sequence[int] = SIZES,
        highest: int = 0,
        ttl: int = 0,
        keyed: QueuePlan | None = None,
    ) -> None:
        """`highest`: the highest priority of messages; `ttl`: some messages expire within this many milliseconds.

        `keyed`: a queue whose keys the messages have.
        """
        super().__init__(node, record, name, seed)
        self.sizes = sizes
        self.routes = routes
        self.highest = highest
        self.ttl = ttl
        self.keyed = keyed
        self.number = 0

    def publish(self, channel: Channel, commit: str = "") -> tuple[Message, bytes]:
        """Record the next message; return it and the frames to write."""
        self.number += 1
        message = Message(self.name, self.number)
        route = self.chance.choice(self.routes)
        priority = self.chance.randint(0, self.highest)
        self.record.note(Sent(message, route.queues, self.incarnation, priority, commit))
        more: dict[str, Any] = {"priority": priority} if self.highest else {}
        if self.ttl and self.chance.random() < 0.5:
            more["expiration"] = str(self.chance.randint(0, self.ttl))
        if self.keyed:
            more["headers"] = {LAST_VALUE_KEY: f"{self.name}/{self.keyed.key_of(self.number)}"}
        body = message.body(self.chance.choice(self.sizes))
        return message, publish_frames(
            channel.number, body, route.exchange, route.key, mandatory=True, delivery_mode=PERSISTENT, **more
        )


class Publisher(Numbered):
    """Publishes with confirms, with at most `window` unconfirmed messages."""

    def __init__(
        self, *args: Any, window: int = 100, burst: int = 8, pause: float = 0.15, polite: bool = False,
        returns: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        """`burst`: the most messages at once; `pause`: the longest pause after them, in seconds; `polite`: channel.flow
        is obeyed; `returns`: messages may be returned, because their queue was full for too long.
        """
        super().__init__(*args, **options)
        self.window = window
        self.burst = burst
        self.pause = pause
        self.returns = returns
        self.properties = JAVA if polite else None

    def work(self, client: Client) -> None:
        """Publish until `stopping`, then wait for the outstanding confirms."""
        channel = client.channel()
        channel.call("confirm.select")
        self._open: dict[int, Message] = {}
        self._held = False
        tag = 0
        due = deadline = 0.0
        while True:
            now = time.monotonic()
            if not self.stopping.is_set():
                deadline = now + PATIENCE
                if now >= due and len(self._open) < self.window and not self._held:
                    due = now + self.chance.random() * self.pause
                    frames = []
                    for _ in range(self.chance.randint(1, self.burst)):
                        tag += 1
                        self._open[tag], nbytes = self.publish(channel)
                        frames.append(nbytes)
                    client.write(b"".join(frames))
            elif not self._open:
                return
            elif now > deadline:
                first = min(self._open.values())
                self.wrong(f"{len(self._open)} publishes without an outcome, the first: {first}", first)
                return
            self._read(channel, max(due - now, 0.01))

    def _read(self, channel: Channel, seconds: float) -> None:
        line = arrived(channel, seconds)
        while line:
            event = line.popleft()
            if event.name in ("basic.ack", "basic.nack"):
                outcome = Confirmed if event.name == "basic.ack" else Refused
                tags = [tag for tag in self._open if tag <= event.delivery_tag] if event.multiple else []
                self.record.note_all([outcome(self._open.pop(tag)) for tag in tags or [event.delivery_tag]])
            elif event.name == "channel.flow":
                self._held = not event.active
                channel.send("channel.flow-ok", active=event.active)
            elif event.name != "basic.return" or event.code != 311 or not self.returns:
                self.wrong(f"{event.name}({event.arguments})")


class Committer(Numbered):
    """Publishes in transactions of up to `most` messages."""

    def __init__(self, *args: Any, most: int = 8, pause: float = 0.15, **options: Any) -> None:
        super().__init__(*args, **options)
        self.most = most
        self.pause = pause

    def work(self, client: Client) -> None:
        """Commit transactions until `stopping`."""
        channel = client.channel()
        channel.call("tx.select")
        while not self.stopping.wait(self.chance.random() * self.pause):
            commit = f"{self.name}/{self.number}"
            published = [self.publish(channel, commit) for _ in range(self.chance.randint(1, self.most))]
            client.write(b"".join(nbytes for _, nbytes in published))
            channel.call("tx.commit")
            for event in client.line(channel.number):
                self.wrong(f"{event.name}({event.arguments})")
            client.line(channel.number).clear()
            self.record.note_all(Confirmed(message) for message, _ in published)
