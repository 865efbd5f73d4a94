"""The way into a queue that has a limit, as one acceptor sees it: how much may be under way, and who waits for room.

The shard decides when a queue is saturated; between its decision and the acceptor's knowledge messages are in flight.
So an acceptor keeps what it has under way to a queue within its share of the room that the gauges show, plus its share
of the overshoot that is published with the marks: whatever the number of producers, depth stays within that bound.

      open ──(room used up, or the queue is saturated)──▶ sessions wait, in turn
      open ◀──(taken in, resumed, raised, deleted: `serve`)── sessions wait
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from penstock.gauges import Gauges
from penstock.watermarks import Marks, QueueLimits

if TYPE_CHECKING:
    from acceptor.confirms import Span

UNLIMITED = 1 << 62
# What a session is let in with at least, where there is room for it: turns of single messages would cost too much.
SHARE = 64


class Session(Protocol):
    """A channel that may wait: it publishes what it has parked, as far as there is room, when it is let in."""

    def admit(self, most: int) -> None: ...

    def held_at(self, gate: Gate) -> None: ...

    def reconsider(self) -> None: ...


class Gate(Protocol):
    """What a publish must pass: a queue with a limit, or the link to a shard."""

    waiting: OrderedDict[Session, None]

    def room(self) -> tuple[int, int]: ...

    def admits(self, count: int, octets: int) -> bool: ...

    def is_saturated(self) -> bool: ...

    def serve(self) -> None: ...


class Inlet:
    """The gate of one queue. `in_flight` counts messages and octets that the shard has not taken in yet.

    `closed` is one whose queue is gone: its slot in the gauges may be another queue's by now.
    """

    __slots__ = (
        "acceptors", "closed", "gauges", "id", "in_flight", "in_flight_bytes", "limits", "name", "slot", "vhost",
        "waiting", "withheld",
    )  # fmt: skip

    def __init__(
        self, gauges: Gauges, acceptors: int, id: int, slot: int, vhost: str, name: str, limits: QueueLimits
    ) -> None:
        self.gauges = gauges
        self.acceptors = acceptors
        self.id = id
        self.slot = slot
        self.vhost = vhost
        self.name = name
        self.limits = limits
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.waiting: OrderedDict[Session, None] = OrderedDict()
        self.withheld: list[Span] = []
        self.closed = False

    def __str__(self) -> str:
        """What an operator or a client is told: the depth against the marks."""
        return f"queue '{self.name}' in vhost '{self.vhost}': {told(self.limits.marks, *self.depth())}"

    def depth(self) -> tuple[int, int]:
        """Messages and octets that count against the marks."""
        return self.gauges.depth_count(self.slot), self.gauges.depth_bytes(self.slot)

    def is_saturated(self) -> bool:
        return not self.closed and self.gauges.saturated(self.slot)

    def room(self) -> tuple[int, int]:
        """(messages, octets) that may be sent now."""
        if self.closed:
            return UNLIMITED, UNLIMITED
        if self.is_saturated():
            return 0, 0
        marks = self.limits.marks
        count, octets = self.share()
        if self.acceptors > 1:
            # The depth lacks what the others have under way: together they have no more than twice the overshoot.
            count = min(count, max(2 * marks.overshoot_count // self.acceptors, 1)) if marks.stop_count else count
            octets = min(octets, max(2 * marks.overshoot_bytes // self.acceptors, 1)) if marks.stop_bytes else octets
        count -= self.in_flight if marks.stop_count else 0
        octets -= self.in_flight_bytes if marks.stop_bytes else 0
        return max(count, 0), max(octets, 0 if self.in_flight else 1)

    def share(self) -> tuple[int, int]:
        """This acceptor's share, in messages and octets, of the room that the gauges show and of the overshoot."""
        marks = self.limits.marks
        count = octets = UNLIMITED
        depth, depth_bytes = self.depth()
        if marks.stop_count:
            count = max(marks.stop_count - depth, 0) + marks.overshoot_count
            count = max(count // self.acceptors, 1)
        if marks.stop_bytes:
            octets = max(marks.stop_bytes - depth_bytes, 0) + marks.overshoot_bytes
            octets = max(octets // self.acceptors, 1)
        return count, octets

    def admits(self, count: int, octets: int) -> bool:
        """Whether so much may be sent at once. More than there can ever be room for may once nothing is under way."""
        if self.closed:
            return True
        if self.is_saturated():
            return False
        marks = self.limits.marks
        room, space = self.share()
        if count + self.in_flight <= room and octets + self.in_flight_bytes <= space:
            return True
        most = (marks.stop_count + marks.overshoot_count) // self.acceptors if marks.stop_count else UNLIMITED
        most_octets = (marks.stop_bytes + marks.overshoot_bytes) // self.acceptors if marks.stop_bytes else UNLIMITED
        return self.in_flight == 0 and (count > most or octets > most_octets)

    def entered(self, count: int, octets: int) -> None:
        self.in_flight += count
        self.in_flight_bytes += octets

    def taken(self, count: int, octets: int) -> None:
        """The shard has taken in what was under way."""
        self.in_flight -= count
        self.in_flight_bytes -= octets

    def serve(self) -> None:
        serve(self)

    def close(self) -> None:
        """The queue is gone: nothing waits for its room any more."""
        self.closed = True
        self.release_withheld()

    def lose_withheld(self) -> None:
        """The queue is empty because its shard died: what waited for its confirms is not in it."""
        withheld, self.withheld = self.withheld, []
        for span in withheld:
            span.lose()

    def release_withheld(self) -> None:
        """Confirms that waited for this queue wait for it no longer."""
        withheld, self.withheld = self.withheld, []
        for span in withheld:
            span.settle_one()


def told(marks: Marks, count: int, octets: int) -> str:
    """A depth against its marks."""
    words = []
    if marks.stop_count:
        words.append(f"{count} of {marks.stop_count} messages, resume at {marks.resume_count}")
    if marks.stop_bytes:
        words.append(f"{octets} of {marks.stop_bytes} bytes, resume at {marks.resume_bytes}")
    return "; ".join(words)


def serve(gate: Gate) -> None:
    """Let waiting sessions in, one after the other, each its share of the room there is."""
    turns = len(gate.waiting)
    while turns and gate.waiting:
        room, octets = gate.room()
        if room <= 0 or octets <= 0:
            return
        session, _ = gate.waiting.popitem(last=False)
        session.admit(max(room // turns, SHARE))
        turns -= 1
        if turns and next(iter(gate.waiting), None) is session:
            return  # it needs more than there is, all at once: nobody goes before it
