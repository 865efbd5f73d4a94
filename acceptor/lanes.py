"""The priority lane of a queue: some messages pass it though it is stopped, up to a reserve beyond its stop mark.

They are those of at least some priority, or whose routing key matches a pattern. On their channel they overtake what is
parked, other publishes alike, but no method. Where the reserve is used up they wait like any other, and for the lane as
well: channels in turn, and nobody who comes later goes before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from acceptor.gate import UNLIMITED, Gate
from acceptor.inlet import Inlet
from acceptor.lane import Lane
from acceptor.parked import ParkedMethod, ParkedRun
from acceptor.pools import itself
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.batch.batch_cy import HAS_PRIORITY
from penstock.text.patterns import pattern

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.route import Route


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


def are_waited_for(route: Route) -> bool:
    """Whether somebody waits for the lane of a queue on that route: who comes now goes behind."""
    return any(inlet.lane_line is not None and inlet.lane_line.waiting for inlet in route.inlets)


def wait(channel: ChannelState, route: Route) -> None:
    """Some of what the channel has parked is for the lanes of a route."""
    for inlet in route.inlets:
        if inlet.lane_line is not None:
            inlet.lane_line.wait(channel)


def next_parked(channel: ChannelState, at: int) -> int | None:
    """Where in the inbox, from there on, the next run for a lane is that no method is before; None: there is none."""
    for index, item in enumerate(islice(channel.inbox, at, None), at):
        if isinstance(item, ParkedMethod):
            return None
        if item.in_lane:
            return index
    return None


def passing(channel: ChannelState, run: ParkedRun, route: Route) -> int:
    """How many messages of a run for the lane may go now, though others wait."""
    channel.published_along(route)
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
