"""The line of channels that wait for the priority lane of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.claims import NO_PLACE, Claim, Claims
from acceptor.fair import FairLine
from acceptor.gate import UNLIMITED, Session
from acceptor.inlet import share_of
from penstock.limits.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.inlet import Inlet
    from acceptor.metered import Metered

# How often the reserve is looked at while somebody waits for it: nobody tells that messages have left.
LOOK_SECONDS = 0.01


class LaneLine:
    """The channels that wait for the lane of a queue; each waits at the queue itself too. Who has nothing to publish
    there any more is forgotten when its turn comes.

    Of several acceptors each lets in a part of the room by the weight of those who wait there, and all equally often:
    else the one with the quickest turns had most. `due_here` is what that is by now, to a fraction of a message, and
    `clock` is in seconds. `in_flight` counts messages and octets of the lane that the shard has not taken in yet. Where
    there are other acceptors they are claimed (acceptor/claims.py): the reserve is used once, not by each.
    """

    __slots__ = (
        "claim", "clock", "due_here", "in_flight", "in_flight_bytes", "inlet", "looked", "metered", "slot", "waiting"
    )  # fmt: skip

    opens_with_time = True
    terms = None

    def __init__(self, inlet: Inlet, metered: Metered, clock: Callable[[], float], claims: Claims) -> None:
        self.inlet = inlet
        self.in_flight = self.in_flight_bytes = 0
        self.claim = Claim(claims, self)
        self.slot = -1
        self.metered = metered
        self.clock = clock
        self.waiting = FairLine(inlet.waiting.by)
        self.looked = -LOOK_SECONDS
        self.due_here = 0.0

    def wait(self, channel: Session) -> None:
        if not self.waiting and self.waiting.by != self.inlet.waiting.by:
            self.waiting = FairLine(self.inlet.waiting.by)
        self.waiting[channel] = None
        self.metered.closed[self] = None

    def room(self) -> tuple[int, int]:
        """(messages, octets) that may pass at this acceptor."""
        inlet, lane = self.inlet, self.inlet.lane
        if lane is None or inlet.stands_aside():
            return UNLIMITED, UNLIMITED
        count, octets = inlet.left_to_lane(lane)
        if inlet.acceptors == 1:
            return max(count - inlet.in_flight, 0), max(octets - inlet.in_flight_bytes, 0)
        if not self.has_place():
            return self.share(count, octets)
        wanted, wanted_octets = self.part(count), self.part(octets)
        free, free_octets = self.claim.free()
        if (wanted and free <= 0) or (wanted_octets and free_octets <= 0):
            self.claim.ask(wanted, wanted_octets, self.room_now)
            free, free_octets = self.claim.free()
        room, space = self.room_now()
        return (
            UNLIMITED if count == UNLIMITED else max(min(free, room - self.in_flight), 0),
            UNLIMITED if octets == UNLIMITED else max(min(free_octets, space - self.in_flight_bytes), 0),
        )

    def has_place(self) -> bool:
        """Whether what is under way is counted together with that of other acceptors: where its queue is by now."""
        if self.slot != self.inlet.slot:
            self.slot = self.inlet.slot
            self.claim.at(self.claim.claims.place_of(f"lane {self.slot}"))
        return self.claim.place != NO_PLACE

    def part(self, left: int) -> int:
        """What this acceptor asks for of what is left: an equal part."""
        return 0 if left == UNLIMITED else max(left // self.inlet.acceptors, 1 if left > 0 else 0)

    def room_now(self) -> tuple[int, int]:
        """What all acceptors together may have under way for the lane, by the depth of now. Others may fill the queue
        up to its mark meanwhile: then there is only the reserve.
        """
        inlet, lane = self.inlet, self.inlet.lane
        assert lane is not None
        count, octets = inlet.left_to_lane(lane)
        most, most_octets = lane.reserve, inlet.marks.reserve_bytes
        return (
            min(count - (inlet.in_flight - self.in_flight), most),
            min(octets - (inlet.in_flight_bytes - self.in_flight_bytes), most_octets),
        )

    def share(self, count: int, octets: int) -> tuple[int, int]:
        """An equal share of what is left, where others are not known to have something under way."""
        inlet, lane, marks = self.inlet, self.inlet.lane, self.inlet.marks
        assert lane is not None
        if count != UNLIMITED:
            most = overshoot_of(count - lane.reserve + inlet.depth()[0]) + lane.reserve
            count = max(share_of(count, most, inlet.acceptors) - inlet.in_flight, 0)
        if octets != UNLIMITED:
            most = marks.overshoot_bytes + marks.reserve_bytes
            octets = max(share_of(octets, most, inlet.acceptors) - inlet.in_flight_bytes, 0)
        return count, octets

    some_room = room

    def taken(self, count: int, octets: int) -> None:
        """The shard has taken in what was under way."""
        self.in_flight -= count
        self.in_flight_bytes -= octets
        self.claim.settle()

    def admits(self, count: int, octets: int) -> bool:
        room, space = self.room()
        return count <= room and octets <= space

    def is_saturated(self) -> bool:
        return min(self.room()) <= 0

    def due(self) -> float:
        """In how many seconds there may be room again."""
        return LOOK_SECONDS

    def close(self) -> None:
        """The lane is no more: nothing is claimed for it."""
        self.claim.drop()

    def serve(self) -> None:
        """Let in who waits, in turn, as far as there is room."""
        line, left = self.waiting, self.due_now()
        for _ in range(len(line)):
            room = self.room()
            if not line or left <= 0 or min(room) <= 0:
                break
            quantum = max(min(room[0], left) // line.weight, 1)
            share = line.begin_turn(quantum)
            if share.surplus > 0:
                session = next(iter(share.sessions))
                line.pop(session)
                sent = session.pass_lane(min(share.surplus, left))
                share.surplus -= sent
                left -= sent
                self.due_here -= sent
                if session.waits_for_lane():
                    line[session] = None
            line.end_turn()

    def due_now(self) -> int:
        """How many messages may go from here now."""
        inlet, now = self.inlet, self.clock()
        room = self.room()[0]
        if inlet.acceptors == 1 or room == UNLIMITED:
            self.due_here = 0.0
            return room
        if now < self.looked + LOOK_SECONDS:
            return 0
        self.looked = now
        part = inlet.weight / inlet.most_weight if 0 < inlet.weight < inlet.most_weight else 1.0
        self.due_here = min(max(self.due_here, 0.0), 1.0) + room * part / 2  # for all there is to be some left
        return int(self.due_here)
