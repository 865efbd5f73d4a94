"""The priority lane of a queue: some messages pass it though it is stopped, up to a reserve beyond its stop mark.

They are those of at least some priority, or whose routing key matches a pattern. On their channel they overtake what is
parked, other publishes alike, but no method. Where the reserve is used up they wait like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from acceptor.inlet import UNLIMITED, Gate, Inlet, share_of
from acceptor.parked import ParkedRun
from acceptor.pools import itself
from acceptor.sessions import note
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.batch_cy import HAS_PRIORITY
from penstock.features import QueueFeatures
from penstock.patterns import pattern
from penstock.watermarks import overshoot_of

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.routes import Route


class Lane(NamedTuple):
    """Who may pass: a priority (None: none), a pattern of routing keys ("": none); and how many beyond the mark."""

    priority: int | None
    key: str
    reserve: int

    def room(self, inlet: Inlet) -> tuple[int, int]:
        """(messages, octets) that may pass at an acceptor: its share of what is left of the reserve."""
        if inlet.stands_aside():
            return UNLIMITED, UNLIMITED
        marks, (depth, depth_bytes), acceptors = inlet.limits.marks, inlet.depth(), inlet.acceptors
        stops = [marks.stop_count + marks.overshoot_count] if marks.stop_count else []
        stops += [inlet.pace.pacing.target] if inlet.pace is not None else []
        count = octets = UNLIMITED
        if stops:
            left, most = min(stops) + self.reserve - depth, overshoot_of(min(stops)) + self.reserve
            count = share_of(left, most, acceptors) - inlet.in_flight
        if marks.stop_bytes:
            most = marks.overshoot_bytes + marks.reserve_bytes
            octets = share_of(marks.stop_bytes + most - depth_bytes, most, acceptors) - inlet.in_flight_bytes
        return max(count, 0), max(octets, 0)


def lane_of(features: QueueFeatures) -> Lane | None:
    return Lane(features.lane_priority, features.lane_key or "", features.reserve) if features.reserve else None


def pieces(run: ParkedRun, lanes: Iterable[Lane], keys: tuple[str, ...]) -> Iterator[tuple[ParkedRun, bool]]:
    """A run, cut where messages begin or cease to be for the lane of each of the queues; whether a piece is."""
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


def passing(channel: Channel, run: ParkedRun, route: Route) -> int:
    """How many messages of a run for the lane may go now, though others wait."""
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
    if isinstance(inlet, Inlet) and inlet.lane is not None:
        return inlet.lane.room(inlet)
    return gate.room()
