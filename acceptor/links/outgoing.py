"""The turn that an acceptor is writing to a shard, until it leaves."""

from __future__ import annotations

from typing import Any

from acceptor.links.sent import OWN_PARTS, Commit, Publish, Sent
from acceptor.links.unacked_cy import Settlements
from penstock import bus
from penstock.bus import to_shard

# How long settlements that nobody waits for may wait for something else to leave with.
SETTLING_SECONDS = 0.001
# Bytes of large contents with which a turn waits for no more of them.
RIDING = 1024 * 1024
# A turn with more bytes than that comes from a client that goes on sending: waiting for more is worth while.
STREAMING = 256 * 1024


class OutgoingTurn(bus.Turn):
    """A turn under construction, with its `contents`, which must not be lost.

    Publishes, commits and settlements may grow until it leaves; their operations have places in it until then.
    `latest` is the latest publish to each queue, which later ones may join; `windows` are the bytes written to each
    consumer's socket. It `hurries` if somebody waits for what it settles.
    """

    __slots__ = ("contents", "hurries", "latest", "settle_at", "settling_since", "windows")

    def __init__(self, shard: int) -> None:
        super().__init__(shard)
        self.contents = Sent()
        self.settle_at: int | None = None
        self.settling_since = 0.0
        self.hurries = False
        self.windows: dict[int, int] | None = None
        self.latest: dict[int | str, Publish] = {}

    def open_publish(self, queues: tuple[int | str, ...], weight: int) -> Publish:
        """Append a new publish, which later messages to the same queues may join."""
        publish = Publish(queues, weight)
        self.contents.publishes[self.reserve()] = publish
        for queue in queues:
            self.latest[queue] = publish
        return publish

    def joined(self, queues: tuple[int | str, ...]) -> Publish | None:
        """Return the publish that more messages may join without overtaking another one to any of its queues."""
        publish = self.latest.get(queues[0])
        if (
            publish is not None
            and publish.batch is None
            and publish.queues == queues
            and (len(queues) == 1 or all(self.latest.get(queue) is publish for queue in queues))
            and publish.builder is not None
            and publish.builder.used < 16 * OWN_PARTS
        ):
            return publish
        return None

    def commit(self, commit: Commit) -> None:
        """Append one shard's part of a transaction, with its publishes, which nothing else may join."""
        self.mark(commit)
        for publish in commit.publishes:
            publish.finish()
            for queue in publish.queues:
                self.latest[queue] = publish
            self.contents.publishes[self.reserve()] = publish

    def mark(self, commit: Commit) -> None:
        """Append the operation of a commit."""
        self.contents.commits[self.reserve()] = commit

    def settling(self, now: float) -> Settlements:
        """Return the settlements to add to; the first ones append their operation."""
        if self.settle_at is None:
            self.settle_at = self.reserve()
            self.settling_since = now
        return self.contents.settlements

    def open_window(self, consumer: int, nbytes: int) -> None:
        """Report the bytes of a consumer's deliveries that have been written to its socket."""
        if self.windows is None:
            self.windows = {}
            self.add(to_shard.Window(self.windows))
        self.windows[consumer] = self.windows.get(consumer, 0) + nbytes

    def waits(self, now: float, left_at: float, unreported: bool) -> bool:
        """Whether nothing in it is urgent, so that it may wait for more. `left_at` is when the last turn left;
        `unreported` whether an earlier turn is not reported.
        """
        if self.hurries:
            return False
        if self.contents.publishes:
            return self._rides(now, left_at, unreported)
        settles_only = self.settle_at is not None and len(self.operations) == 1
        return settles_only and now - self.settling_since < SETTLING_SECONDS

    def _rides(self, now: float, left_at: float, unreported: bool) -> bool:
        """Whether it has mostly large contents that only pass, and may wait a moment for more of them. A turn of few
        bytes waits only while an earlier one is not reported.
        """
        plain = len(self.contents.publishes) + (self.settle_at is not None) + (self.windows is not None)
        load = self.contents.load
        return (
            (unreported or load.nbytes > STREAMING)
            and load.mostly_passes()
            and load.nbytes < RIDING
            and len(self.operations) == plain
            and now - left_at < SETTLING_SECONDS
        )

    def leave(self, number: int, version: int, last_report: int) -> tuple[Sent, list[Any]]:
        """Complete it under a number. Return its contents, as sent, and the multipart."""
        sent = self.contents
        for index, publish in sent.publishes.items():
            publish.finish()
            assert publish.batch is not None
            part = self.place_batch(publish.batch, publish.first, publish.count)
            self.operations[index] = publish.operation(part)
        if self.settle_at is not None:
            self.operations[self.settle_at] = to_shard.Settle(self.place(sent.settlements.finish()))
        for index, commit in sent.commits.items():
            settled = commit.settlements
            self.operations[index] = commit.operation(self.place(settled.finish()) if settled is not None else None)
        frames = self.frames(number, version, last_report)
        sent.number = number
        sent.operations = self.operations
        sent.nbytes = sum(map(len, frames)) + self.lent
        return sent, frames
