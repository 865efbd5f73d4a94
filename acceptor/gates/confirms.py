"""Publisher confirms of a channel, by ranges (RabbitMQ's extension; confirm.select).

A `Span` is a run of publishes with the same route. It waits until every shard has taken it in and then, if one of its
queues is saturated, until that queue has room again or the span's messages have left the queue: withheld confirms close
a publisher's window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from acceptor.gates.gate import Gate
from penstock.amqp.encode_cy import Output
from penstock.batch.ranges_cy import RangeSet

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access
    from router.model.topics_cy import Work


class Confirms:
    """The confirms of one channel: tags count from 1, and every tag below `lowest` is confirmed."""

    __slots__ = ("completed", "done", "lowest", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self.lowest = 1
        self.done = RangeSet()
        self.completed: list[tuple[int, int, bool]] = []

    def number(self, count: int) -> int:
        """Assign tags to `count` publishes; return the first."""
        self.next_tag += count
        return self.next_tag - count

    def complete(self, first: int, count: int, negative: bool) -> None:
        """Record an ack or nack for publishes; `write` sends it."""
        self.completed.append((first, count, negative))

    def write(self, channel: int, output: Output) -> int:
        """Send the recorded confirms: one multiple ack up to the first gap, single ones beyond it, and nacks singly.
        Return how many publishes are acked.
        """
        completed, self.completed = self.completed, []
        completed.sort()
        up_to = acked = 0
        for first, count, negative in completed:
            if not negative:
                acked += count
            if first == self.lowest and not negative:
                self.lowest += count
                up_to = self.lowest - 1
            else:
                output.acks(channel, first, count, False, negative)
                self.done.add(first, count)
            if self.done.total and self.done.first() == self.lowest:
                self.lowest += self.done.pop_first(self.done.total)[1]
        if up_to:
            output.acks(channel, up_to, 1, True, False)
        return acked


class Withholding(Gate, Protocol):
    """The gate of a queue: confirms of what it holds wait for it."""

    withheld: list[Span]


class FlowSet(Protocol):
    """Several queues of one publish that may hold it (acceptor/gates/fan.py)."""

    @property
    def queue_gates(self) -> tuple[Withholding, ...]: ...

    def leavers(self) -> frozenset[Withholding]: ...

    def holders(self) -> Sequence[Withholding]: ...


class Way(Protocol):
    """How publishes went: a route (acceptor/routing/route.py)."""

    @property
    def powerless(self) -> frozenset[int]: ...

    @property
    def further(self) -> tuple[str, ...]: ...

    def address(self) -> bytes: ...


class Confirmed(Protocol):
    """The channel that learns what became of its publishes; it is held while confirms are withheld from it."""

    @property
    def access(self) -> Access: ...

    def budget(self) -> Work: ...

    def confirmed(self) -> None: ...

    def broken(self, error: Exception) -> None: ...

    def withholds(self, queue_gate: Withholding) -> bool: ...

    def withheld_at(self, gate: Gate) -> None: ...

    def no_longer_withheld(self) -> None: ...


class Span:
    """Tags `first` to `first + count - 1`, waiting for `awaited` more shards, and then for queues.

    `route` is the route of its publishes. Where queues of it are a flow set (`fan`), the span waits for them as long as
    the set holds its producers, and for no queue that lags. `queue_gates` are its queues with marks, and those that it
    waits for while it is `withheld`; `left` has the tags that have left each queue, `unconfirmed` the rest once some of
    the span are confirmed.
    """

    __slots__ = (
        "awaited",
        "channel",
        "confirms",
        "count",
        "done",
        "fan",
        "first",
        "left",
        "queue_gates",
        "rejected",
        "route",
        "unconfirmed",
        "withheld",
    )  # fmt: skip

    def __init__(
        self, confirms: Confirms, first: int, count: int, shards: int, queue_gates: Sequence[Withholding],
        channel: Confirmed, fan: FlowSet | None = None, route: Way | None = None,
    ) -> None:  # fmt: skip
        self.confirms = confirms
        self.route = route
        self.first = first
        self.count = count
        self.awaited = shards
        self.queue_gates = queue_gates
        self.fan = fan
        self.done = False
        self.rejected: RangeSet | None = None
        self.channel = channel
        self.withheld = False
        self.left: dict[Withholding, RangeSet] | None = None
        self.unconfirmed: RangeSet | None = None

    def heeds(self, queue: int) -> bool:
        """Whether a refusal by this queue is passed on to the publisher: not if the queue is powerless."""
        return self.route is None or queue not in self.route.powerless

    def reject(self, offset: int, count: int) -> None:
        """Record that a queue refused `count` publishes, from the span's publish number `offset` on."""
        if self.rejected is None:
            self.rejected = RangeSet()
        self.rejected.remove(self.first + offset, count)
        self.rejected.add(self.first + offset, count)

    def settle_one(self) -> None:
        """Count one more shard as done; after the last, confirm the span or withhold it."""
        self.awaited -= 1
        if self.awaited:
            return
        queue_gates, self.queue_gates = self.queue_gates, ()
        left = self.fan.leavers() if queue_gates and self.fan is not None else ()
        for queue_gate in queue_gates:
            if queue_gate not in left and queue_gate.is_saturated() and self.channel.withholds(queue_gate):
                queue_gate.withheld.append(self)
                self.queue_gates = (*self.queue_gates, queue_gate)
                if self.fan is not None and queue_gate not in self.fan.queue_gates:
                    self.fan = None  # a queue outside the set is waited for, whatever the set does
                if not self.withheld:
                    self.withheld = True
                    self.channel.withheld_at(queue_gate)
        if not self.withheld:
            self.complete()
        elif self.left is not None:
            self.give([(self.first, self.first + self.count)])

    def let_go(self, queue_gate: Withholding) -> None:
        """Stop waiting for a queue."""
        if self.done:
            return  # it waited for several queues, and not all of them were needed
        self.queue_gates = tuple(other for other in self.queue_gates if other is not queue_gate)
        if not self.queue_gates:
            self.complete()
            return
        if self.left is not None:
            self.give([(self.first, self.first + self.count)])
        self.recheck()

    def recheck(self) -> None:
        """Confirm the span if it waits only for lagging queues."""
        if self.withheld and self.fan is not None and not self.done and not self.fan.holders():
            self.complete()

    def lose(self, queue_gate: Withholding) -> None:
        """Reject the publishes that had not left a queue which is gone with its contents, and stop waiting for it."""
        lost = RangeSet()
        lost.add(self.first, self.count)
        if self.left is not None and queue_gate in self.left:
            for low, high in self.left[queue_gate].ranges():
                lost.remove(low, high - low)
        for low, high in lost.ranges():
            self.reject(low - self.first, high - low)
        self.let_go(queue_gate)

    def leave(self, queue_gate: Withholding, offset: int, count: int) -> None:
        """Record that `count` publishes, from the span's publish number `offset` on, have left a saturated queue for
        good.
        """
        if self.done:
            return
        if self.left is None:
            self.left = {}
        left = self.left.setdefault(queue_gate, RangeSet())
        left.remove(self.first + offset, count)
        left.add(self.first + offset, count)
        if self.withheld:
            self.give([(self.first + offset, self.first + offset + count)])

    def give(self, tags: list[tuple[int, int]]) -> None:
        """Confirm those of some tags that have left every queue the span waits for; `tags` are ranges (start, end)."""
        assert self.left is not None
        for queue_gate in self.queue_gates:
            if queue_gate not in self.left:
                return
            tags = overlaps(tags, self.left[queue_gate].ranges())
        if self.unconfirmed is None:
            self.unconfirmed = RangeSet()
            self.unconfirmed.add(self.first, self.count)
        given = [part for low, high in tags for part in self.unconfirmed.remove(low, high - low)]
        if not self.unconfirmed:
            self.end(given)
        elif given:
            self.confirm(given)
            self.channel.confirmed()

    def complete(self) -> None:
        """Confirm all remaining tags."""
        if self.unconfirmed is None:
            self.end([(self.first, self.count)])
        else:
            self.end([(low, high - low) for low, high in self.unconfirmed.ranges()])

    def end(self, parts: list[tuple[int, int]]) -> None:
        """Confirm the last (first tag, count) parts; the channel is no longer held for this span."""
        self.done = True
        self.confirm(parts)
        if self.withheld:
            self.channel.no_longer_withheld()
        self.channel.confirmed()

    def confirm(self, parts: list[tuple[int, int]]) -> None:
        """Confirm (first tag, count) of each part, and nack the publishes that a queue refused."""
        for at, count in parts:
            end = at + count
            for low, high in overlaps([(at, end)], self.rejected.ranges()) if self.rejected is not None else ():
                if at < low:
                    self.confirms.complete(at, low - at, False)
                self.confirms.complete(low, high - low, True)
                at = high
            if at < end:
                self.confirms.complete(at, end - at, False)


def overlaps(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the intersection of two sorted lists of ranges (start, end)."""
    found = []
    i = j = 0
    while i < len(some) and j < len(others):
        low, high = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        if low < high:
            found.append((low, high))
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return found
