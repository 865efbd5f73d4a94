"""A node at rest: the messages that can be read are those that it reports, and afterwards it is empty."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tests.faults.actor import arrived
from tests.faults.events import AtRest, Delivered, Done, How, Message, Record, Settled, Wrong
from tests.faults.node import Counts, Node
from tests.faults.plan import Plan, QueuePlan, marker
from tests.faults.publishers import PERSISTENT
from tests.outcomes import Confirms
from tests.raw import Channel, Client
from tests.waiting import PATIENCE

T = TypeVar("T")

QUIET_SECONDS = 0.15
QUIET_CHECKS = 10
"""The number of answers required from every process meanwhile: one that is not scheduled moves nothing either."""
EMPTY_CHECKS = 3
"""The same when queues are emptied: acks arrive, messages that they make room for leave, and those arrive."""
LATE_SECONDS = 0.1
"""A process that takes longer to answer may have work that it has not begun."""
DRAIN_INCARNATION = 1_000_000
"""Greater than the `incarnation` of any reader that the drain replaces."""


class Drain:
    """Empties the queues of a plan. No other client is at work."""

    def __init__(self, node: Node, record: Record, plan: Plan, number: int) -> None:
        self.node = node
        self.record = record
        self.plan = plan
        self.incarnation = DRAIN_INCARNATION + number
        self.kept: list[Done] = []

    def run(self) -> None:
        """Empty the queues that change by themselves, then the others by their counts; check that nothing is left."""
        self._settled()
        queues = self.plan.queues.values()
        with self.node.connect() as client:
            self._empty(client, [queue for queue in queues if queue.dies_unread])
            self._settled()
            while self._empty(client, [queue for queue in queues if queue.waited_for]):
                self._settled()
            self._empty(client, queues)
            if not self._nothing_left():
                return
            self._keep(client)
            self.record.note_all(self.kept)
        self._nobody_held()
        self.record.note(AtRest())

    def _settled(self) -> dict[str, Counts]:
        """Wait until nothing moves; return the counts."""
        return self._still(self.node.counts)

    def _still(self, observe: Callable[[], T]) -> T:
        """Return an observation that has not changed for a while during which every process was at work."""
        deadline = time.monotonic() + PATIENCE
        seen, since, checks = observe(), time.monotonic(), 0
        while checks < QUIET_CHECKS or time.monotonic() - since < QUIET_SECONDS:
            if time.monotonic() > deadline:
                raise AssertionError(f"still changing after {PATIENCE:g} s: {seen!r}")
            began = time.monotonic()
            self.node.turn()
            now = observe()
            if now != seen or time.monotonic() - began > LATE_SECONDS:
                seen, since, checks = now, time.monotonic(), 0
            else:
                checks += 1
            time.sleep(QUIET_SECONDS / 20)
        return seen

    def _wrong(self, what: str) -> None:
        self.record.note(Wrong(what))

    def _empty(self, client: Client, queues: Iterable[QueuePlan]) -> int:
        """Empty queues; return the number of messages that came."""
        drains = [_QueueDrain(self, client, queue, self.node.counts()[queue.name]) for queue in queues]
        deadline = time.monotonic() + PATIENCE
        quiet, checks = time.monotonic(), 0
        while (
            checks < EMPTY_CHECKS
            or time.monotonic() < quiet + QUIET_SECONDS
            or not all(drain.complete for drain in drains)
        ):
            self.node.turn()
            checks += 1
            if sum(drain.take() for drain in drains):
                quiet, checks = time.monotonic(), 0
            elif time.monotonic() > deadline:
                break
        for drain in drains:
            for difference in drain.end():
                self._wrong(difference)
        return sum(drain.count for drain in drains)

    def _nothing_left(self) -> bool:
        """Whether every queue is empty, by the gauges."""
        empty = True
        for name, counts in self._settled().items():
            if name in self.plan.queues and any(counts):
                self._wrong(f"{name} is not empty: {counts}")
                empty = False
        return empty

    def _keep(self, client: Client) -> None:
        """Wait until each shard has stored a message sent after all settlements."""
        confirms = Confirms(client.channel())
        for shard in range(self.plan.shards):
            confirms.publish(b"", marker(self.plan, shard), delivery_mode=PERSISTENT)
        confirms.wait()

    def _nobody_held(self) -> None:
        """Check that nothing is held, parked or in flight, once the gauges, which lag, are still."""
        found = self._still(self.node.held)
        if any(found):
            self._wrong(f"at rest, but {found}")


class _QueueDrain:
    """The drain of one queue: the messages that came, and the counts in its gauge."""

    def __init__(self, drain: Drain, client: Client, queue: QueuePlan, counts: Counts) -> None:
        self.drain = drain
        self.queue = queue
        self.counts = counts
        self.count = 0
        self.nbytes = 0
        self.channel: Channel = client.channel()
        self.channel.call("basic.qos", prefetch_count=1000)
        self.channel.call("basic.consume", queue=queue.name, consumer_tag="drain")

    @property
    def complete(self) -> bool:
        """Whether all counted messages have come."""
        return self.count >= self.counts.ready or self.queue.dies_unread

    def take(self) -> bool:
        """Ack the messages that have come; return whether there were any."""
        line = arrived(self.channel, 0.005)
        last = None
        reader, incarnation = self.queue.name, self.drain.incarnation
        for event in line:
            if event.name != "basic.deliver":
                self.drain._wrong(f"drain of {self.queue.name}: {event.name}({event.arguments})")
                continue
            last = event
            self.count += 1
            self.nbytes += len(event.body)
            message = Message.of_body(event.body)
            self.drain.record.note(
                Delivered(self.queue.name, reader, incarnation, message, event.redelivered),
                Settled(self.queue.name, reader, incarnation, message, How.ACK),
            )
            self.drain.kept.append(Done(self.queue.name, message, How.ACK))
        line.clear()
        if last is not None:
            self.channel.send("basic.ack", delivery_tag=last.delivery_tag, multiple=True)
        return last is not None

    def end(self) -> Iterator[str]:
        """Leave the queue; yield differences between the messages that came and the counts."""
        self.channel.call("basic.cancel", consumer_tag="drain")
        self.channel.call("channel.close", code=200, text="bye")
        counts, came = self.counts, (self.count, self.nbytes)
        if counts.unacked or counts.unacked_bytes:
            yield f"{self.queue.name}: {counts} and nobody reads it"
        if self.queue.waited_for:
            if came < (counts.ready, counts.ready_bytes):
                yield f"{self.queue.name}: {came} came, counted were {counts}"
        elif self.queue.dies_unread:
            if came > (counts.ready, counts.ready_bytes):
                yield f"{self.queue.name}: {came} came, counted were {counts}"
        elif came != (counts.ready, counts.ready_bytes):
            yield f"{self.queue.name}: {came} came, counted were {counts}"
