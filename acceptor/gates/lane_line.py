"""The line of channels that wait for the priority lane of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.gates.cause import HoldCause
from acceptor.gates.claims import NO_PLACE, Claim, Claims
from acceptor.gates.fair import FairLine
from acceptor.gates.gate import UNLIMITED, WaitingChannel
from acceptor.gates.queue_gate import share_of
from penstock.limits.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.gates.metered import Metered
    from acceptor.gates.queue_gate import QueueGate

# Poll interval of the reserve while channels wait for it: no event announces that messages have left.
RECHECK_SECONDS = 0.01


class LaneLine:
    """The channels that wait for the lane of a queue; each waits at the queue itself too. A channel that has nothing to
    publish there is dropped when its turn comes.

    Each of several acceptors admits a part of the room by the weight that waits there, and all equally often: else the
    acceptor with the quickest turns would get most. `due_here` is the part due by now, to a fraction of a message;
    `clock` returns seconds. `in_flight` and `in_flight_bytes` count messages not reported as safe yet. Where
    there are other acceptors that is claimed (acceptor/gates/claims.py): the reserve is used once, not by each.
    """

    __slots__ = (
        "checked_at",
        "claim",
        "clock",
        "due_here",
        "in_flight",
        "in_flight_bytes",
        "metered",
        "queue_gate",
        "slot",
        "waiting"
    )  # fmt: skip

    opens_with_time = True
    terms = None

    def __init__(self, queue_gate: QueueGate, metered: Metered, clock: Callable[[], float], claims: Claims) -> None:
        self.queue_gate = queue_gate
        self.in_flight = self.in_flight_bytes = 0
        self.claim = Claim(claims, self)
        self.slot = -1
        self.metered = metered
        self.clock = clock
        self.waiting = FairLine(queue_gate.waiting.by)
        self.checked_at = -RECHECK_SECONDS
        self.due_here = 0.0

    def wait(self, channel: WaitingChannel) -> None:
        """Put a channel into the line."""
        if not self.waiting and self.waiting.by != self.queue_gate.waiting.by:
            self.waiting = FairLine(self.queue_gate.waiting.by)
        self.waiting[channel] = None
        self.metered.closed[self] = None

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may pass at this acceptor at present; claims them where there are others."""
        queue_gate, lane = self.queue_gate, self.queue_gate.lane
        if lane is None or queue_gate.stands_aside():
            return UNLIMITED, UNLIMITED
        count, nbytes = queue_gate.left_to_lane(lane)
        if queue_gate.acceptors == 1:
            return max(count - queue_gate.in_flight, 0), max(nbytes - queue_gate.in_flight_bytes, 0)
        if not self.has_place():
            return self.share(count, nbytes)
        wanted, wanted_bytes = self.part(count), self.part(nbytes)
        free, free_bytes = self.claim.free()
        if (wanted and free <= 0) or (wanted_bytes and free_bytes <= 0):
            self.claim.ask(wanted, wanted_bytes, self.room_now)
            free, free_bytes = self.claim.free()
        room, space = self.room_now()
        return (
            UNLIMITED if count == UNLIMITED else max(min(free, room - self.in_flight), 0),
            UNLIMITED if nbytes == UNLIMITED else max(min(free_bytes, space - self.in_flight_bytes), 0),
        )

    def has_place(self) -> bool:
        """Whether messages in flight are claimed, so that other acceptors count them. Follows a queue that moved."""
        if self.slot != self.queue_gate.slot:
            self.slot = self.queue_gate.slot
            self.claim.at(self.claim.claims.place_of(f"lane {self.slot}"))
        return self.claim.place != NO_PLACE

    def part(self, left: int) -> int:
        """Return the equal part of the remaining room that this acceptor claims."""
        return 0 if left == UNLIMITED else max(left // self.queue_gate.acceptors, 1 if left > 0 else 0)

    def room_now(self) -> tuple[int, int]:
        """Return the messages and bytes that all acceptors together may have in flight for the lane, by the present
        depth. No more than the reserve: others may fill the queue up to its mark meanwhile.
        """
        queue_gate, lane = self.queue_gate, self.queue_gate.lane
        assert lane is not None
        count, nbytes = queue_gate.left_to_lane(lane)
        most, most_bytes = lane.reserve, queue_gate.marks.reserve_bytes
        return (
            min(count - (queue_gate.in_flight - self.in_flight), most),
            min(nbytes - (queue_gate.in_flight_bytes - self.in_flight_bytes), most_bytes),
        )

    def share(self, count: int, nbytes: int) -> tuple[int, int]:
        """Return an equal share of the remaining room, where the messages in flight elsewhere are not known."""
        queue_gate, lane, marks = self.queue_gate, self.queue_gate.lane, self.queue_gate.marks
        assert lane is not None
        if count != UNLIMITED:
            most = overshoot_of(count - lane.reserve + queue_gate.depth()[0]) + lane.reserve
            count = max(share_of(count, most, queue_gate.acceptors) - queue_gate.in_flight, 0)
        if nbytes != UNLIMITED:
            most = marks.overshoot_bytes + marks.reserve_bytes
            nbytes = max(share_of(nbytes, most, queue_gate.acceptors) - queue_gate.in_flight_bytes, 0)
        return count, nbytes

    some_room = room

    def arrived(self, count: int, nbytes: int) -> None:
        """The shard has reported messages as safe: subtract them from those in flight."""
        self.in_flight -= count
        self.in_flight_bytes -= nbytes
        self.claim.settle()

    def admits(self, count: int, nbytes: int) -> bool:
        room, space = self.room()
        return count <= room and nbytes <= space

    def describe(self) -> HoldCause:
        """Describe the queue whose lane it is."""
        return self.queue_gate.describe()

    def is_saturated(self) -> bool:
        return min(self.room()) <= 0

    def due(self) -> float:
        """Return the seconds until there may be room again."""
        return RECHECK_SECONDS

    def close(self) -> None:
        """The lane is no more: nothing is claimed for it."""
        self.claim.drop()

    def serve(self) -> None:
        """Admit waiting channels to the lane in turn, as far as there is room."""
        line, left = self.waiting, self.due_now()
        turns = len(line)
        while turns and line and left > 0:
            room = self.room()
            if min(room) <= 0:
                break
            share = line.next_turn()
            if share is None:  # a round goes on where room ended: with room for one message weights count as well
                line.next_round(max(min(room[0], left) // line.weight, 1))
                continue
            turns -= 1
            channel = next(iter(share.channels))
            line.pop(channel)
            sent = channel.pass_lane(min(share.surplus, left))
            share.surplus -= sent
            left -= sent
            self.due_here -= sent
            if channel.waits_for_lane():
                line[channel] = None
            line.end_turn()

    def due_now(self) -> int:
        """Return how many messages may be sent from this acceptor at present."""
        queue_gate, now = self.queue_gate, self.clock()
        room = self.room()[0]
        if queue_gate.acceptors == 1 or room == UNLIMITED:
            self.due_here = 0.0
            return room
        if now < self.checked_at + RECHECK_SECONDS:
            return 0
        self.checked_at = now
        weights = queue_gate.weights
        part = weights.own / weights.most if 0 < weights.own < weights.most else 1.0
        self.due_here = min(max(self.due_here, 0.0), 1.0) + room * part / 2  # half, so that all find some
        return int(self.due_here)
