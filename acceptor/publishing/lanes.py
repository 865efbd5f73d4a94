"""The priority lane of a queue: some messages pass it though it is stopped, up to a reserve beyond its stop mark.

Such messages have at least some priority, or a routing key that matches a pattern. They overtake all parked publishes
of their channel, but no method. Where the reserve is used up they wait at the queue like any other, and in the lane's
line as well, where channels take turns and no newcomer goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from acceptor.clients.parked import ParkedMethod, ParkedRun
from acceptor.gates.gate import UNLIMITED, Gate
from acceptor.gates.lane import Lane
from acceptor.gates.pools import itself
from acceptor.gates.queue_gate import QueueGate
from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.batch.batch_cy import HAS_PRIORITY
from penstock.text.patterns import pattern

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.routing.route import Route


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
    return any(queue_gate.lane_line is not None and queue_gate.lane_line.waiting for queue_gate in route.queue_gates)


def wait(channel: ChannelState, route: Route) -> None:
    """Have a channel with parked messages for the lanes of a route wait for these."""
    for queue_gate in route.queue_gates:
        if queue_gate.lane_line is not None:
            queue_gate.lane_line.wait(channel)


def next_parked(channel: ChannelState, at: int) -> int | None:
    """Return the index in the inbox, from `at` on, of the next run for a lane that no method is before; else None."""
    for index, item in enumerate(islice(channel.inbox, at, None), at):
        if isinstance(item, ParkedMethod):
            return None
        if item.in_lane:
            return index
    return None


def passing(channel: ChannelState, run: ParkedRun, route: Route) -> int:
    """Return how many messages of a run for the lane may be sent at present, though other channels wait."""
    channel.published_along(route)
    count = run.count
    for gate in route.gates_for(channel.connection.id):
        room, nbytes = _room(gate)
        count = min(count, room)
        if nbytes < UNLIMITED and count:
            fit = run.batch.fit_whole(run.first, count, nbytes)
            count = fit if fit or nbytes == 0 else 1
    return count


def _room(gate: Gate) -> tuple[int, int]:
    queue_gate = itself(gate)
    if isinstance(queue_gate, QueueGate) and queue_gate.lane_line is not None:
        return queue_gate.lane_line.room()
    return gate.room()
