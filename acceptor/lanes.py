"""The priority lane of a queue: some messages pass it though it is stopped, up to a reserve beyond its stop mark.

Such messages have at least some priority, or a routing key that matches a pattern. They overtake all parked publishes
of their channel, but no method. Where the reserve is used up they wait at the queue like any other, and in the lane's
line as well, where channels take turns and no newcomer goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from acceptor.claims import NO_PLACE, Claim, Claims
from acceptor.fair import FairLine
from acceptor.inlet import UNLIMITED, Gate, Inlet, share_of
from acceptor.parked import ParkedMethod, ParkedRun
from acceptor.pools import itself
from acceptor.sessions import note
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.batch.batch_cy import HAS_PRIORITY
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import overshoot_of
from penstock.text.patterns import pattern

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.metered import Metered
    from acceptor.route import Route

# Poll interval of the reserve while channels wait for it: no event announces that messages have left.
LOOK_SECONDS = 0.01


class Lane(NamedTuple):
    """The messages that may pass, by priority (None: none) or a pattern of routing keys ("": none), and how many beyond
    the mark.
    """

    priority: int | None
    key: str
    reserve: int

    def left(self, inlet: Inlet) -> tuple[int, int]:
        """Return how far the depth is below the end of the reserve, in messages and bytes."""
        marks, (depth, depth_bytes) = inlet.marks, inlet.depth()
        stops = [marks.stop_count + marks.overshoot_count] if marks.stop_count else []
        stops += [inlet.pace.pacing.target] if inlet.pace is not None else []
        count = octets = UNLIMITED
        if stops:
            count = min(stops) + self.reserve - depth
        if marks.stop_bytes:
            octets = marks.stop_bytes + marks.overshoot_bytes + marks.reserve_bytes - depth_bytes
        return count, octets


class LaneLine:
    """The channels that wait for the lane of a queue; each waits at the queue itself too. A channel that has nothing to
    publish there is dropped when its turn comes.

    Each of several acceptors admits a part of the room by the weight that waits there, and all equally often: else the
    acceptor with the quickest turns would get most. `due_here` is the part due by now, to a fraction of a message;
    `clock` returns seconds. `in_flight` and `in_flight_bytes` count messages not reported as safe yet. Where
    there are other acceptors that is claimed (acceptor/claims.py): the reserve is used once, not by each.
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

    def wait(self, channel: Channel) -> None:
        """Put a channel into the line."""
        if not self.waiting and self.waiting.by != self.inlet.waiting.by:
            self.waiting = FairLine(self.inlet.waiting.by)
        self.waiting[channel] = None
        self.metered.closed[self] = None

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may pass at this acceptor at present; claims them where there are others."""
        inlet, lane = self.inlet, self.inlet.lane
        if lane is None or inlet.stands_aside():
            return UNLIMITED, UNLIMITED
        count, octets = lane.left(inlet)
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
        """Whether messages in flight are claimed, so that other acceptors count them. Follows a queue that moved."""
        if self.slot != self.inlet.slot:
            self.slot = self.inlet.slot
            self.claim.at(self.claim.claims.place_of(f"lane {self.slot}"))
        return self.claim.place != NO_PLACE

    def part(self, left: int) -> int:
        """Return the equal part of the remaining room that this acceptor claims."""
        return 0 if left == UNLIMITED else max(left // self.inlet.acceptors, 1 if left > 0 else 0)

    def room_now(self) -> tuple[int, int]:
        """Return the messages and bytes that all acceptors together may have in flight for the lane, by the present
        depth. No more than the reserve: others may fill the queue up to its mark meanwhile.
        """
        inlet, lane = self.inlet, self.inlet.lane
        assert lane is not None
        count, octets = lane.left(inlet)
        most, most_octets = lane.reserve, inlet.marks.reserve_bytes
        return (
            min(count - (inlet.in_flight - self.in_flight), most),
            min(octets - (inlet.in_flight_bytes - self.in_flight_bytes), most_octets),
        )

    def share(self, count: int, octets: int) -> tuple[int, int]:
        """Return an equal share of the remaining room, where the messages in flight elsewhere are not known."""
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
        """The shard has reported so much as safe: it is in flight no longer."""
        self.in_flight -= count
        self.in_flight_bytes -= octets
        self.claim.settle()

    def admits(self, count: int, octets: int) -> bool:
        room, space = self.room()
        return count <= room and octets <= space

    def is_saturated(self) -> bool:
        return min(self.room()) <= 0

    def due(self) -> float:
        """Return the seconds until there may be room again."""
        return LOOK_SECONDS

    def serve(self) -> None:
        """Admit waiting channels to the lane in turn, as far as there is room."""
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
        """Return how many messages may be sent from this acceptor at present."""
        inlet, now = self.inlet, self.clock()
        room = self.room()[0]
        if inlet.acceptors == 1 or room == UNLIMITED:
            self.due_here = 0.0
            return room
        if now < self.looked + LOOK_SECONDS:
            return 0
        self.looked = now
        part = inlet.weight / inlet.most_weight if 0 < inlet.weight < inlet.most_weight else 1.0
        self.due_here = min(max(self.due_here, 0.0), 1.0) + room * part / 2  # half, so that all find some
        return int(self.due_here)


def lane_of(features: QueueFeatures) -> Lane | None:
    """Return the priority lane that a queue's features ask for."""
    return Lane(features.lane_priority, features.lane_key or "", features.reserve) if features.reserve else None


def pieces(run: ParkedRun, lanes: Iterable[Lane], keys: tuple[str, ...]) -> Iterator[tuple[ParkedRun, bool]]:
    """Cut a run where messages begin or cease to be for the lane of each queue. Yield each piece and whether it is."""
    by_priority = [lane.priority for lane in lanes if not _matches(lane, keys)]
    if not by_priority:
        yield run, True
        return
    flags = run.batch.all_flags(run.first, run.count)
    if None in by_priority or not flags & HAS_PRIORITY:
        yield run, False
        return
    least = max(priority for priority in by_priority if priority is not None)
    first, count = run.first, run.count
    in_lane = [_priority(run, row) >= least for row in range(first, first + count)]
    at = 0
    while at < count:
        end = at
        while end < count and in_lane[end] == in_lane[at]:
            end += 1
        yield ParkedRun(run.address, run.mandatory, run.batch, first + at, end - at, 0, run.further), in_lane[at]
        at = end


def _matches(lane: Lane, keys: tuple[str, ...]) -> bool:
    return bool(lane.key) and any(pattern(lane.key).matches(key) for key in keys)


def _priority(run: ParkedRun, row: int) -> int:
    if not run.batch.flags(row) & HAS_PRIORITY:
        return 0
    _, header, _ = run.batch.record(row)
    found = decode_properties(header[PROPERTIES_AT:]).get("priority", 0)
    return found if isinstance(found, int) else 0


def are_waited_for(route: Route) -> bool:
    """Whether channels wait for the lane of a queue of that route, so that a newcomer must wait too."""
    return any(inlet.lane_line is not None and inlet.lane_line.waiting for inlet in route.inlets)


def wait(channel: Channel, route: Route) -> None:
    """Have a channel with parked messages for the lanes of a route wait for these."""
    for inlet in route.inlets:
        if inlet.lane_line is not None:
            inlet.lane_line.wait(channel)


def next_parked(channel: Channel, at: int) -> int | None:
    """Return the index in the inbox, from `at` on, of the next run for a lane that no method is before; else None."""
    for index, item in enumerate(islice(channel.inbox, at, None), at):
        if isinstance(item, ParkedMethod):
            return None
        if item.in_lane:
            return index
    return None


def passing(channel: Channel, run: ParkedRun, route: Route) -> int:
    """Return how many messages of a run for the lane may be sent at present, though other channels wait."""
    note(channel, route)
    count = run.count
    for gate in route.gates_for(channel.connection.id):
        room, octets = _room(gate)
        count = min(count, room)
        if octets < UNLIMITED and count:
            fit = run.batch.fit_whole(run.first, count, octets)
            count = fit if fit or octets == 0 else 1
    return count


def _room(gate: Gate) -> tuple[int, int]:
    inlet = itself(gate)
    if isinstance(inlet, Inlet) and inlet.lane_line is not None:
        return inlet.lane_line.room()
    return gate.room()
