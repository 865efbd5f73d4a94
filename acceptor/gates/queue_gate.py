"""The gate of a queue with a limit, at one acceptor: how much may be in flight to the queue, and which channels wait.

Theory of operation. The shard decides when its queue is saturated, and writes that and the depth into the gauges.
Messages are in flight between its decision and the acceptor's next read of the gauges, so `room` is computed anew for
each publish, for each mark that is set, in messages or bytes:

    room = (stop mark - depth + overshoot) / acceptors - in flight from here        0 while the queue is saturated

`ShardLink.enter` adds to the amount in flight; `taken` subtracts from it when the shard reports the turn as safe. The
depth lacks what other acceptors have in flight, so with several acceptors the share is at most 2 × overshoot /
acceptors, and smaller at an acceptor where less weight shares the room than at another one (acceptor/gates/parts.py).

Invariant: no acceptor sends a message that would raise its amount in flight above its share at that moment; so,
whatever the number of producers, depth stays within stop mark + overshoot with one acceptor, and stop mark + 2 ×
overshoot with several. Exceptions: one message at each acceptor, of any size; a transaction larger than the share ever
is (`is_too_much`); the reserve of a priority lane (acceptor/publishing/lanes.py); room lent in a deadlock; and a queue
that stands aside, which has no bound.

A channel that finds no room waits in line and is admitted in turn, each time with a share of the room. A newcomer never
overtakes a channel that waits, except by the rules of rounds (acceptor/gates/rounds.py) and lanes.

      open ──(room used up, or the queue is saturated)──▶ channels wait, in turn
      open ◀──(taken in, resumed, raised, deleted: `serve`)── channels wait
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from acceptor.gates.acceptor_weights import AcceptorWeights
from acceptor.gates.cause import Depth, HoldCause
from acceptor.gates.fair import FairLine, Share
from acceptor.gates.gate import SHARE, SHARE_BYTES, UNLIMITED, WaitingChannel
from acceptor.gates.lane import Lane
from acceptor.gates.terms import STANDARD, Terms
from penstock.limits.pacing import Pacing
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from penstock.telemetry.schema import Cause

if TYPE_CHECKING:
    from acceptor.gates.confirms import Confirmed, Span

# The flow state of a deleted queue: it holds no producer.
CLOSED = (True, False, 0, 0)
# Poll interval of a queue whose pace was removed.
RECHECK_SECONDS = 0.1


class QueuePace(Protocol):
    """The pace of a queue, as its gate uses it (acceptor/gates/pace.py)."""

    @property
    def pacing(self) -> Pacing: ...

    def room(self, queue_gate: QueueGate) -> int: ...

    def serve(self, queue_gate: QueueGate) -> None: ...

    def due(self, queue_gate: QueueGate) -> float: ...

    def ask(self, queue_gate: QueueGate, used: int = 0) -> None: ...

    def given(self, queue_gate: QueueGate, count: int) -> None: ...

    def come_again(self, queue_gate: QueueGate, count: int) -> None: ...

    def came_again(self, queue_gate: QueueGate, count: int) -> None: ...

    def forget(self) -> None: ...


class QueueRounds(Protocol):
    """The rounds in which a queue's room is given, as its gate uses them (acceptor/gates/rounds.py)."""

    def begin(self, queue_gate: QueueGate) -> None: ...

    def charge(self, queue_gate: QueueGate, channel: WaitingChannel, count: int, nbytes: int) -> None: ...

    def newcomer(self, queue_gate: QueueGate, channel: WaitingChannel) -> int: ...

    def has_had_its_part(self, queue_gate: QueueGate) -> bool: ...

    def awaits(self, queue_gate: QueueGate) -> bool: ...

    def forgive(self, queue_gate: QueueGate) -> None: ...

    def due(self) -> float: ...

    def weight(self, queue_gate: QueueGate) -> int: ...

    def end_if_over(self, queue_gate: QueueGate) -> None: ...


class QueueLane(Protocol):
    """The line for the priority lane of a queue, as its gate uses it (acceptor/gates/lane_line.py)."""

    in_flight: int
    in_flight_bytes: int

    @property
    def waiting(self) -> FairLine: ...

    def wait(self, channel: WaitingChannel) -> None: ...

    def room(self) -> tuple[int, int]: ...

    def arrived(self, count: int, nbytes: int) -> None: ...

    def serve(self) -> None: ...

    def close(self) -> None: ...


class QueueGate:
    """The gate of one queue. `in_flight` and `in_flight_bytes` count messages that the shard has not reported as safe.

    A queue that shares publishes with others (`fanned`) may be `lagging` (acceptor/gates/fan.py), until it
    has room. `closed`: the queue is deleted, and its slot in the gauges may belong to another queue.
    `announced_epoch` is the flow epoch of the last stop that was announced to the waiting channels. `weights` say how
    much of the room is due to this acceptor. `warned` channels know of the stop though nothing of theirs waits
    (acceptor/holding/early.py); `withheld` are the spans whose confirms wait for the queue.
    """

    __slots__ = (
        "acceptors",
        "announced_epoch",
        "calm",
        "closed",
        "fanned",
        "gauges",
        "id",
        "in_flight",
        "in_flight_bytes",
        "lagging",
        "lane",
        "lane_line",
        "limits",
        "marks",
        "name",
        "overshoot",
        "pace",
        "rounds",
        "slot",
        "terms",
        "vhost",
        "waiting",
        "warned",
        "weights",
        "withheld",
    )  # fmt: skip

    def __init__(
        self, gauges: Gauges, acceptors: int, id: int, slot: int, vhost: str, name: str, limits: QueueLimits,
        terms: Terms = STANDARD,
    ) -> None:  # fmt: skip
        self.gauges = gauges
        self.acceptors = acceptors
        self.id = id
        self.slot = slot
        self.vhost = vhost
        self.name = name
        self.closed = False
        self.set_limits(limits)
        self.terms = terms
        self.pace: QueuePace | None = None
        self.rounds: QueueRounds | None = None
        self.lane: Lane | None = None
        self.lane_line: QueueLane | None = None
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.waiting = FairLine()
        self.withheld: list[Span] = []
        self.warned: dict[WaitingChannel, None] = {}
        self.fanned = self.lagging = False
        self.announced_epoch = -1
        self.weights = AcceptorWeights()

    def __str__(self) -> str:
        """Describe the depth against the marks, or the pace, for an operator or a client."""
        if self.pace is not None and not self.is_saturated():
            target = self.pace.pacing.target
            return f"queue '{self.name}' in vhost '{self.vhost}': {self.depth()[0]} messages, paced to {target}"
        return f"queue '{self.name}' in vhost '{self.vhost}': {describe_depth(self.limits.marks, *self.depth())}"

    def describe(self) -> HoldCause:
        """Describe the queue as it stands against its marks. The mark that its depth has exceeded more, or is nearer
        to, is the cause; below it a pace is.
        """
        column, depth = self.column_and_depth()
        return HoldCause(
            "queue", str(self), "", column, self.vhost, self.name, self.id, sort="queue", name=self.name, depth=depth,
            flow_epoch=None if self.closed else self.flow_epoch(), numbers=self.numbers(), facts={"slot": self.slot},
        )  # fmt: skip

    def column_and_depth(self) -> tuple[Cause, Depth]:
        """Return the cause in telemetry, and depth, size and mark; the queue of a closed gate has none."""
        if self.closed:
            return "count", Depth()
        marks, (count, nbytes) = self.limits.marks, self.depth()
        by_bytes = count * marks.stop_bytes < nbytes * marks.stop_count if marks.stop_count else marks.stop_bytes > 0
        column: Cause = "bytes" if by_bytes and marks.stop_bytes else "count"
        if self.pace is not None and not self.is_saturated():
            column = "pace"
        mark = marks.stop_bytes if column == "bytes" else marks.stop_count
        return column, Depth(count, nbytes, mark)

    def numbers(self) -> dict[str, int]:
        """Return depth and marks, as events have them."""
        marks, (count, nbytes) = self.limits.marks, self.depth()
        return {
            "count": count, "bytes": nbytes, "stop_count": marks.stop_count, "resume_count": marks.resume_count,
            "stop_bytes": marks.stop_bytes, "resume_bytes": marks.resume_bytes,
        }  # fmt: skip

    def set_limits(self, limits: QueueLimits) -> None:
        """Set the limits, and cache the marks and overshoot that each publish needs."""
        self.limits = limits
        self.marks = limits.marks
        self.overshoot = limits.marks.overshoot_count, limits.marks.overshoot_bytes
        self.calm = None if self.closed else self.calm_at()

    def calm_at(self) -> tuple[int, int, int, int] | None:
        """Return (depth, depth in bytes, messages, bytes): at or below the depth the amount may be in flight, so that a
        publish needs to know no more. None if there is no such depth.
        """
        depth, most = calm_below(self.marks.stop_count, self.overshoot[0], self.acceptors)
        depth_bytes, most_bytes = calm_below(self.marks.stop_bytes, self.overshoot[1], self.acceptors)
        return (depth, depth_bytes, most, most_bytes) if depth >= 0 and depth_bytes >= 0 else None

    def share_by(self, by: str) -> None:
        """Form shares of the waiting channels `by` this criterion (`acceptor.gates.fair`)."""
        if by != self.waiting.by:
            self.waiting = self.waiting.shared_by(by)

    def depth(self) -> tuple[int, int]:
        """Return the messages and bytes that count against the marks."""
        return self.gauges.depth_count(self.slot), self.gauges.depth_bytes(self.slot)

    def is_saturated(self) -> bool:
        """Whether the shard has found the queue saturated; a deleted queue is not."""
        return not self.closed and self.gauges.saturated(self.slot)

    def is_full(self) -> bool:
        """Whether the queue has room for nobody: it is saturated, or as deep as it is paced to be."""
        if self.pace is None or self.stands_aside():
            return self.is_saturated()
        return self.is_saturated() or self.depth()[0] + self.in_flight >= self.pace.pacing.target

    def flow_epoch(self) -> int:
        """Return the number of the present stop or resume: each has its own."""
        return self.gauges.flow_epoch(self.slot)

    def stands_aside(self) -> bool:
        """Whether the queue stops no producer, whatever its depth."""
        return self.closed or self.gauges.aside(self.slot)

    def flow(self) -> tuple[bool, bool, int, int]:
        """Return (stands aside, saturated, depth, depth in bytes) at once: each publish needs all four."""
        return self.gauges.flow(self.slot) if not self.closed else CLOSED

    def some_room(self) -> tuple[int, int]:
        """Return the room of a queue far below its marks from one read of the gauges; else `room`."""
        if self.calm is not None and self.pace is None and not self.weights.most:
            depth, depth_bytes, most, most_bytes = self.calm
            count, nbytes = most - self.in_flight, most_bytes - self.in_flight_bytes
            if count > 0 and nbytes > 0 and self.gauges.is_calm(self.slot, depth, depth_bytes):
                return count, nbytes
        return self.room()

    def room_for(self, least: int) -> tuple[int, int]:
        """Return `room`; a gate that must claim its room may find more of it when at least `least` messages need it."""
        return self.room()

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present, by the rule at the top of this module."""
        aside, saturated, depth, depth_bytes = self.flow()
        if aside:
            return UNLIMITED, UNLIMITED
        if saturated:
            return 0, 0
        count, nbytes = self.share(depth, depth_bytes)
        marks = self.marks
        if self.acceptors > 1:
            # The depth lacks what other acceptors have in flight: at most twice the overshoot in all.
            most, most_bytes = self.overshoot
            count = min(count, max(2 * most // self.acceptors, 1)) if marks.stop_count else count
            nbytes = min(nbytes, max(2 * most_bytes // self.acceptors, 1)) if marks.stop_bytes else nbytes
            if 0 < self.weights.own < self.weights.most:
                count = self.part_of(count) if marks.stop_count else count
                nbytes = self.part_of(nbytes) if marks.stop_bytes else nbytes
        if marks.stop_count:
            count -= self.in_flight
        if marks.stop_bytes:
            nbytes -= self.in_flight_bytes
        if self.pace is not None:
            count = min(count, self.pace.room(self))
        if count > 0 and nbytes > 0:
            return count, nbytes
        return max(count, 0), max(nbytes, 0 if self.in_flight else 1)

    def part_of(self, share: int) -> int:
        """Return the part of a share that is due to an acceptor with less weight than another one."""
        return max(share * self.weights.own // self.weights.most, 1)

    def share(self, depth: int, depth_bytes: int) -> tuple[int, int]:
        """Return this acceptor's share, in messages and bytes, of the room at that depth and of the overshoot."""
        stop, stop_bytes = self.marks.stop_count, self.marks.stop_bytes
        count = nbytes = UNLIMITED
        if stop:
            count = ((stop - depth if stop > depth else 0) + self.overshoot[0]) // self.acceptors or 1
        if stop_bytes:
            left = stop_bytes - depth_bytes if stop_bytes > depth_bytes else 0
            nbytes = (left + self.overshoot[1]) // self.acceptors or 1
        return count, nbytes

    def admits(self, count: int, nbytes: int) -> bool:
        """Whether these messages and bytes may be sent at once. While nothing is in flight that includes more than
        there can ever be room for, and any amount if the queue is lent room.
        """
        aside, saturated, depth, depth_bytes = self.flow()
        if aside:
            return True
        if saturated or (self.pace is not None and not self.pace.room(self)):
            return False
        room, space = self.share(depth, depth_bytes)
        if count + self.in_flight <= room and nbytes + self.in_flight_bytes <= space:
            return True
        return self.is_too_much(count, nbytes) or (self.in_flight == 0 and self.is_lent())

    def is_lent(self) -> bool:
        """Whether the shard admits more than the marks, to resolve a deadlock."""
        queue = self.gauges.queue_read(self.slot)
        return queue is not None and queue.queue_id == self.id and bool(queue.lent_count or queue.lent_bytes)

    def is_too_much(self, count: int, nbytes: int) -> bool:
        """Whether nothing is in flight, and there can never be room for that much at once."""
        marks = self.marks
        most = (marks.stop_count + marks.overshoot_count) // self.acceptors if marks.stop_count else UNLIMITED
        most_bytes = (marks.stop_bytes + marks.overshoot_bytes) // self.acceptors if marks.stop_bytes else UNLIMITED
        return self.in_flight == 0 and (count > most or nbytes > most_bytes)

    def arrived(self, count: int, nbytes: int) -> None:
        """The shard has reported messages as safe: subtract them from those in flight."""
        self.in_flight -= count
        self.in_flight_bytes -= nbytes

    def serve(self) -> None:
        """Admit waiting channels in turn, each with its share of the room, and those that wait for the lane."""
        pace = self.pace
        if pace is None:
            self.serve_line(self.counts())
        else:
            pace.serve(self)
        if self.lane_line is not None and self.lane_line.waiting:
            self.lane_line.serve()

    def counts(self) -> bool:
        """Whether the room is shared in messages rather than bytes."""
        return self.marks.stop_count > 0 or self.pace is not None

    def serve_line(self, counts: bool) -> None:
        """Admit waiting channels in turn. Shares are counted in messages (`counts`) or in bytes."""
        line, rounds = self.waiting, self.rounds if self.pace is None else None
        turns = len(line)
        if not turns or min(self.room()) <= 0:
            return
        if rounds is not None:
            rounds.begin(self)
        while turns > 0 and line and min(self.room()) > 0:
            if line.first is not None:
                if not self.serve_first(line.first):
                    return
            elif rounds is not None and rounds.has_had_its_part(self):
                if rounds.awaits(self):
                    return
                rounds.forgive(self)
            elif (share := line.next_turn()) is not None:
                turns -= self.serve_share(share, counts)
            elif rounds is not None and rounds.awaits(self):
                return
            else:
                line.next_round(self.quantum(counts))

    def quantum(self, counts: bool) -> int:
        """Return what a round brings to a share of weight 1, in messages or bytes."""
        weight = self.rounds.weight(self) if self.rounds is not None else self.waiting.weight
        room, nbytes = self.room()
        marks = self.marks
        if counts:  # a bound for a queue that stands aside, whose room is unlimited
            most = marks.stop_count + self.overshoot[0] if marks.stop_count else room
            return max(min(room, most) // weight, SHARE)
        most = marks.stop_bytes + self.overshoot[1] if marks.stop_bytes else nbytes
        return max(min(nbytes, most) // weight, SHARE_BYTES)

    @property
    def opens_with_time(self) -> bool:
        """Whether the queue is paced."""
        return self.pace is not None

    def due(self) -> float:
        """Return the seconds until there may be room again: by the pace, or by the rounds."""
        if self.pace is not None:
            return self.pace.due(self)
        return self.rounds.due() if self.rounds is not None else RECHECK_SECONDS

    def serve_first(self, channel: WaitingChannel) -> bool:
        """Admit the channel that needs all its room at once. Return whether the room sufficed; until it does, no other
        channel is served.
        """
        self.waiting.pop(channel)
        channel.admit(SHARE)
        return self.waiting.first is not channel

    def serve_share(self, share: Share, counts: bool) -> int:
        """Give a share its turn. Return how many channels were admitted."""
        line = self.waiting
        let_in, most_let_in = 0, len(share.channels)
        part = max(share.surplus // most_let_in, SHARE if counts else SHARE_BYTES)
        while share.surplus > 0 and share.channels and let_in < most_let_in and min(self.room()) > 0:
            channel = next(iter(share.channels))
            before = self.in_flight if counts else self.in_flight_bytes
            most = min(share.surplus, part) if counts else max(min(share.surplus, part) // channel.size(), 1)
            line.pop(channel)
            channel.admit(most)
            if not line.remembers:  # else it has been charged (acceptor/gates/rounds.py)
                share.surplus -= (self.in_flight if counts else self.in_flight_bytes) - before
            let_in += 1
        line.end_turn()
        return let_in

    def close(self) -> None:
        """Retire the gate of a deleted queue: give withheld confirms, retract early notices."""
        self.closed = True
        self.calm = None
        self.close_lane()
        self.release_withheld()
        self.unwarn()

    def left_to_lane(self, lane: Lane) -> tuple[int, int]:
        """(messages, bytes) that its depth is below the end of the reserve of a lane."""
        paced_to = self.pace.pacing.target if self.pace is not None else None
        return lane.room(self.marks, *self.depth(), paced_to)

    def close_lane(self) -> None:
        """Remove the priority lane, and drop its claim."""
        if self.lane_line is not None:
            self.lane_line.close()
            self.lane_line = None

    def unwarn(self) -> None:
        """Retract the early notices of this queue's stop."""
        for channel in list(self.warned):
            channel.unwarn()

    def lose_withheld(self) -> None:
        """The queue is empty because its shard died: nack withheld publishes that had not left it before."""
        withheld, self.withheld = self.withheld, []
        for span in withheld:
            span.lose(self)

    def forget_given(self) -> None:
        """Drop the withheld spans that are confirmed."""
        self.withheld = [span for span in self.withheld if not span.done]

    def release_left(self) -> None:
        """Give the confirms withheld for this queue of publishes whose fan-out holds its producers no longer."""
        for span in self.withheld:
            span.recheck()
        self.forget_given()

    def release_others(self, waits: Callable[[Span], bool]) -> None:
        """Stop withholding for this queue the spans that need not wait by the current routes, as `waits` says."""
        waiting: list[Span] = []
        free: list[Span] = []
        for span in self.withheld:
            (waiting if waits(span) else free).append(span)
        self.withheld = waiting
        for span in free:
            span.let_go(self)

    def release_withheld_of(self, channel: Confirmed) -> None:
        """Stop withholding the confirms of one channel for this queue."""
        of_it = [span for span in self.withheld if span.channel is channel]
        if of_it:
            self.withheld = [span for span in self.withheld if span.channel is not channel]
        for span in of_it:
            span.let_go(self)

    def release_withheld(self) -> None:
        """Stop withholding confirms for this queue."""
        withheld, self.withheld = self.withheld, []
        for span in withheld:
            span.let_go(self)


def share_of(left: int, most: int, acceptors: int) -> int:
    """Return one acceptor's share of the remaining room. The depth behind `left` lacks what other acceptors have in
    flight: together several have no more than `most` in flight.
    """
    share = max(left // acceptors, 1 if left > 0 else 0)
    return share if acceptors == 1 else min(share, max(most // acceptors, 1))


def calm_below(stop: int, overshoot: int, acceptors: int) -> tuple[int, int]:
    """Return, by one stop mark, a depth and the amount that one acceptor may have in flight while the queue is no
    deeper.
    """
    if not stop:
        return UNLIMITED, UNLIMITED
    if acceptors == 1:
        return stop // 2, stop - stop // 2
    return stop - overshoot - acceptors, max(2 * overshoot // acceptors, 1)


def describe_depth(marks: Marks, count: int, nbytes: int) -> str:
    """Describe a depth against its marks."""
    words = []
    if marks.stop_count:
        words.append(f"{count} of {marks.stop_count} messages, resume at {marks.resume_count}")
    if marks.stop_bytes:
        words.append(f"{nbytes} of {marks.stop_bytes} bytes, resume at {marks.resume_bytes}")
    return "; ".join(words)
