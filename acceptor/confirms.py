"""Publisher confirms of a channel, by ranges (RabbitMQ's extension; confirm.select).

A `Span` is a run of publishes that went the same way. It waits until every shard has taken it in and then, where a
queue it went to is saturated, until that queue has room again, or what is in the queue has left it: withheld confirms
close a publisher's window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from acceptor.gate import Gate
from penstock.amqp.encode_cy import Output
from penstock.batch.ranges_cy import RangeSet

if TYPE_CHECKING:
    from acceptor.permissions import Access
    from router.model.topics_cy import Work


class Confirms:
    """The confirm side of one channel: tags count from 1, everything below `lowest` is confirmed."""

    __slots__ = ("completed", "done", "lowest", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self.lowest = 1
        self.done = RangeSet()
        self.completed: list[tuple[int, int, bool]] = []

    def number(self, count: int) -> int:
        """Tags for `count` publishes; the first of them."""
        self.next_tag += count
        return self.next_tag - count

    def complete(self, first: int, count: int, negative: bool) -> None:
        """Publishes are settled; they are told of by `write`."""
        self.completed.append((first, count, negative))

    def write(self, channel: int, output: Output) -> None:
        """Tell of what is complete: one multiple ack as far as there is no gap, single ones beyond."""
        completed, self.completed = self.completed, []
        completed.sort()
        up_to = 0
        for first, count, negative in completed:
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


class Withholding(Gate, Protocol):
    """The gate of a queue: confirms of what it holds wait for it."""

    withheld: list[Span]


class FlowSet(Protocol):
    """Several queues of one publish that may hold it (acceptor/fan.py)."""

    @property
    def inlets(self) -> tuple[Withholding, ...]: ...

    def leavers(self) -> frozenset[Withholding]: ...

    def holders(self) -> Sequence[Withholding]: ...


class Way(Protocol):
    """How publishes went: a route (acceptor/route.py)."""

    @property
    def powerless(self) -> frozenset[int]: ...

    @property
    def further(self) -> tuple[str, ...]: ...

    def address(self) -> bytes: ...


class Confirmed(Protocol):
    """The channel that hears of its publishes: it is held while confirms are withheld from it."""

    @property
    def access(self) -> Access: ...

    def budget(self) -> Work: ...

    def confirmed(self) -> None: ...

    def broken(self, error: Exception) -> None: ...

    def withholds(self, inlet: Withholding) -> bool: ...

    def withheld_at(self, gate: Gate) -> None: ...

    def no_longer_withheld(self) -> None: ...


class Span:
    """Tags `first` to `first + count - 1`, waiting for `awaited` more shards or queues.

    It went along `route`. Of queues that are a flow set (`fan`) it waits as long as that holds its producers, for none
    that is left behind. `inlets` are its queues with marks, and those that it waits for while it is `withheld`; `left`
    has the tags that have left a queue; `untold` those that are not confirmed, if it is only some.
    """

    __slots__ = (
        "awaited", "confirms", "count", "done", "fan", "first", "inlets", "left", "rejected", "route", "session",
        "untold", "withheld",
    )  # fmt: skip

    def __init__(
        self, confirms: Confirms, first: int, count: int, shards: int, inlets: Sequence[Withholding],
        session: Confirmed, fan: FlowSet | None = None, route: Way | None = None,
    ) -> None:  # fmt: skip
        self.confirms = confirms
        self.route = route
        self.first = first
        self.count = count
        self.awaited = shards
        self.inlets = inlets
        self.fan = fan
        self.done = False
        self.rejected: RangeSet | None = None
        self.session = session
        self.withheld = False
        self.left: dict[Withholding, RangeSet] | None = None
        self.untold: RangeSet | None = None

    def heeds(self, queue: int) -> bool:
        """Whether what a queue refuses is refused to its publisher."""
        return self.route is None or queue not in self.route.powerless

    def reject(self, offset: int, count: int) -> None:
        """A queue refused some of the publishes, counted from the first of the span."""
        if self.rejected is None:
            self.rejected = RangeSet()
        self.rejected.remove(self.first + offset, count)
        self.rejected.add(self.first + offset, count)

    def settle_one(self) -> None:
        """One of the shards is done with it."""
        self.awaited -= 1
        if self.awaited:
            return
        inlets, self.inlets = self.inlets, ()
        left = self.fan.leavers() if inlets and self.fan is not None else ()
        for inlet in inlets:
            if inlet not in left and inlet.is_saturated() and self.session.withholds(inlet):
                inlet.withheld.append(self)
                self.inlets = (*self.inlets, inlet)
                if self.fan is not None and inlet not in self.fan.inlets:
                    self.fan = None  # that one does not let go because of others
                if not self.withheld:
                    self.withheld = True
                    self.session.withheld_at(inlet)
        if not self.withheld:
            self.complete()
        elif self.left is not None:
            self.give([(self.first, self.first + self.count)])

    def let_go(self, inlet: Withholding) -> None:
        """A queue that it waited for need not be waited for any longer."""
        if self.done:
            return  # it waited for several queues, and there was no need to for all of them
        self.inlets = tuple(other for other in self.inlets if other is not inlet)
        if not self.inlets:
            self.complete()
            return
        if self.left is not None:
            self.give([(self.first, self.first + self.count)])
        self.look()

    def look(self) -> None:
        """Be done if it waits for queues that have been left behind only."""
        if self.withheld and self.fan is not None and not self.done and not self.fan.holders():
            self.complete()

    def lose(self, inlet: Withholding) -> None:
        """A queue that it waited for is gone with its contents: what had not left it before is not there any more."""
        lost = RangeSet()
        lost.add(self.first, self.count)
        if self.left is not None and inlet in self.left:
            for low, high in self.left[inlet].ranges():
                lost.remove(low, high - low)
        for low, high in lost.ranges():
            self.reject(low - self.first, high - low)
        self.let_go(inlet)

    def leave(self, inlet: Withholding, offset: int, count: int) -> None:
        """Some of the publishes, counted from the first of the span, have left a saturated queue for good."""
        if self.done:
            return
        if self.left is None:
            self.left = {}
        left = self.left.setdefault(inlet, RangeSet())
        left.remove(self.first + offset, count)
        left.add(self.first + offset, count)
        if self.withheld:
            self.give([(self.first + offset, self.first + offset + count)])

    def give(self, tags: list[tuple[int, int]]) -> None:
        """Confirm what of ranges of tags has left every queue that it waits for."""
        assert self.left is not None
        for inlet in self.inlets:
            if inlet not in self.left:
                return
            tags = overlaps(tags, self.left[inlet].ranges())
        if self.untold is None:
            self.untold = RangeSet()
            self.untold.add(self.first, self.count)
        given = [part for low, high in tags for part in self.untold.remove(low, high - low)]
        if not self.untold:
            self.end(given)
        elif given:
            self.tell(given)
            self.session.confirmed()

    def complete(self) -> None:
        """Confirm all that is not confirmed yet."""
        if self.untold is None:
            self.end([(self.first, self.count)])
        else:
            self.end([(low, high - low) for low, high in self.untold.ranges()])

    def end(self, parts: list[tuple[int, int]]) -> None:
        self.done = True
        self.tell(parts)
        if self.withheld:
            self.session.no_longer_withheld()
        self.session.confirmed()

    def tell(self, parts: list[tuple[int, int]]) -> None:
        """Confirm (first tag, count) of each part, but for what was refused."""
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
    """What two sorted lists of ranges (start, end) have in common."""
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
