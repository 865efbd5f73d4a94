"""A channel's publishes: routed, let through the gates as far as there is room, put into the turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import DETACHED, OPEN
from acceptor.clients.parked import ParkedRun
from acceptor.gates.confirms import Span
from acceptor.gates.gate import UNLIMITED, Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rights import Undecided
from acceptor.publishing.examined import EXAMINED, examined
from acceptor.publishing.lanes import are_waited_for, next_parked, passing, pieces, wait
from acceptor.publishing.refusal import refuse
from acceptor.publishing.returned import Returns
from acceptor.routing.route import Route
from acceptor.routing.routing import Unfinished
from penstock.amqp.encode_cy import RETURN
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.properties import PROPERTIES_AT, decode_some
from penstock.amqp.scan_cy import PublishRun
from penstock.amqp.spec import BY_NAME
from penstock.batch.batch_cy import HAS_EXPIRATION
from penstock.bus import MESSAGE_WEIGHT
from penstock.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState
    from acceptor.holding.episodes import Episodes
    from acceptor.holding.escalation import Escalations
    from acceptor.holding.notifier import Notifier
    from acceptor.publishing.overtaking import Overtaking
    from acceptor.routing.gates import Gates
    from acceptor.routing.routes import Routes

PUBLISH = BY_NAME["basic_publish"]
# Milliseconds by which a parked message may outlive its expiration: runs that wait only for their turn are joined to
# other publishes.
AGE_MS = 20
NO_ROUTE = RETURN + (312).to_bytes(2, "big") + b"\x08NO_ROUTE"


class Publishing:
    """The publishing of an acceptor's channels."""

    def __init__(
        self, acceptor: AcceptorState, gates: Gates, routes: Routes, overtaking: Overtaking, notifier: Notifier,
        escalations: Escalations, episodes: Episodes,
    ) -> None:  # fmt: skip
        self.acceptor = acceptor
        self.gates = gates
        self.routes = routes
        self.overtaking = overtaking
        self.notifier = notifier
        self.escalations = escalations
        self.episodes = episodes

    def publish(self, channel: ChannelState, run: PublishRun) -> None:
        """Accept publishes that have arrived. An invalid one ends the channel, or the connection."""
        if channel.hold is not None:
            self.episodes.came(channel, run.batch.count)
        if channel.notices.flow:
            self.notifier.published_on(channel, run.batch.count, len(run.batch.contents))
            if channel.stage is not OPEN:
                return
        if run.immediate:
            channel.fail(amqp_error(540, "immediate=true", PUBLISH))
        elif run.batch.all_flags(0, run.batch.count) & EXAMINED:
            try:
                for piece in examined(channel, run, self.routes):
                    self.accept(channel, piece)
                    if channel.stage is not OPEN:
                        return
            except AMQPError as error:
                fail_publish(channel, error)
        else:
            self.accept(channel, ParkedRun(run.address, run.mandatory, run.batch, 0, run.batch.count, 0))

    def accept(self, channel: ChannelState, run: ParkedRun) -> None:
        """Send what there is room for, park the rest."""
        if self.gates.lanes and channel.transaction is None:
            try:
                route = self.routes.find(channel, run.address, run.further)
            except AMQPError as error:
                fail_publish(channel, error)
                return
            except Unfinished:
                self.accept_in_order(channel, run)
                return
            if route.lanes:
                for piece, in_lane in pieces(run, route.lanes, (route.key, *route.further)):
                    self.accept_piece(channel, piece, route, in_lane)
                return
        self.accept_in_order(channel, run)

    def accept_piece(self, channel: ChannelState, run: ParkedRun, route: Route, in_lane: bool) -> None:
        """Accept publishes to queues with a priority lane: those for the lane overtake parked ones if they may pass."""
        free = channel.running is None and not channel.inbox.methods and not are_waited_for(route)
        passes = passing(channel, run, route) if in_lane and free else 0
        if passes:
            going = ParkedRun(run.address, run.mandatory, run.batch, run.first, passes, 0, run.further)
            if channel.confirms is not None:
                going.tag = channel.confirms.number(passes)
            self.dispatch(channel, going, route, passes, in_lane=True)
            run.advance(passes)
        if run.count:
            run.in_lane = in_lane
            self.accept_in_order(channel, run)
            if in_lane and run.count and channel.stage is OPEN:
                wait(channel, route)

    def pass_lane(self, channel: ChannelState, most: int) -> int:
        """Send parked publishes for lanes as far as these have room, at most `most` messages; return how many went."""
        left, head, begin = most, channel.inbox[0] if channel.inbox else None, 0
        while left > 0 and channel.running is None and (at := next_parked(channel, begin)) is not None:
            run, begin = channel.inbox[at], at
            assert isinstance(run, ParkedRun)
            left -= self.pass_run(channel, run, left)
            if run.count:
                begin += 1
            else:
                channel.unpark(at)
        if left < most:
            self.escalations.progressed(channel)
        if head is not None and (not channel.inbox or channel.inbox[0] is not head):
            channel.head_has_gone()
        return most - left

    def pass_run(self, channel: ChannelState, run: ParkedRun, most: int) -> int:
        """Send of a parked run what its lanes have room for, at most `most` messages; return how many went."""
        try:
            route = self.routes.find(channel, run.address, run.further)
        except (AMQPError, Unfinished):
            return 0  # reported when its turn comes
        passes = min(passing(channel, run, route), most) if route.lanes else 0
        if passes:
            self.dispatch(channel, run, route, passes, in_lane=True)
        return passes

    def accept_in_order(self, channel: ChannelState, run: ParkedRun) -> None:
        if channel.confirms is not None:
            run.tag = channel.confirms.number(run.count)
        if channel.running is None and (
            not channel.inbox or (channel.overtaking and self.overtaking.may_pass(channel, run))
        ):
            self.forward(channel, run, UNLIMITED)
        if run.count and channel.stage is OPEN:
            channel.park(run)

    def forward(self, channel: ChannelState, run: ParkedRun, most: int) -> int:
        """Send what there is room for, at most `most` messages; return how many went. `run` keeps the rest."""
        before = run.count
        try:
            route = self.routes.route_for(channel, run)
            if route is None:
                channel.wait_at(self.gates.routing)
            elif channel.transaction is not None:
                channel.published_along(route)
                channel.transaction.publish(run)
            elif route.by_properties:
                self.forward_by_properties(channel, run, route, most)
            else:
                self.forward_along(channel, run, route, most)
        except Undecided as undecided:
            self.gates.undecided.wait(channel, undecided)
        except AMQPError as error:
            run.count = 0
            fail_publish(channel, error)
            return before
        return before - run.count

    def forward_along(self, channel: ChannelState, run: ParkedRun, route: Route, most: int) -> None:
        gates = route.gates_for(channel.connection.id)
        if not gates:
            unroutable(channel, run)
            return
        if channel.hold is not None and self.escalations.refuses(channel, gates):
            refuse(channel, run, self.escalations)
            return
        if route is not channel.route:
            channel.published_along(route)
        fresh = most == UNLIMITED
        while run.count and most > 0:
            count = self.fitting(channel, run, gates, min(run.count, most), fresh)
            if count:
                self.dispatch(channel, run, route, count, run.in_lane)
                most -= count
            elif self.wait_at_closed(channel, gates, fresh):
                return
        if run.count:
            # Its share is used up though there may be room: others are next, and reports bring its turn again.
            channel.wait_at(gates[-1])

    def fitting(self, channel: ChannelState, run: ParkedRun, gates: Sequence[Gate], count: int, fresh: bool) -> int:
        """Return how many messages all gates have room for; a newcomer does not overtake waiting channels."""
        contended = self.gates.contended if fresh else {}
        for gate in gates:
            if contended and gate in contended:
                room, nbytes = room_of_newcomer(channel, gate)
            elif fresh and gate.waiting:
                return 0
            else:
                room, nbytes = gate.some_room()
            if room < count:
                count = room
            if count and nbytes < len(run.batch.contents) + MESSAGE_WEIGHT * count:
                fit = run.batch.fit_whole(run.first, count, nbytes)
                count = fit if fit or nbytes == 0 else 1
            if count == 0:
                return 0
        return count

    def wait_at_closed(self, channel: ChannelState, gates: Sequence[Gate], fresh: bool) -> bool:
        """Wait at every gate that has no room; return whether there is one."""
        contended = self.gates.contended if fresh else {}
        for gate in gates:
            if gate in contended:
                closed = min(room_of_newcomer(channel, gate)) <= 0
            else:
                closed = (fresh and bool(gate.waiting)) or min(gate.room()) <= 0
            if closed:
                channel.wait_at(gate)
        return bool(channel.gates)

    def dispatch(
        self, channel: ChannelState, run: ParkedRun, route: Route, count: int, in_lane: bool = False,
        trace: TraceContext | None = None,
    ) -> Span | None:  # fmt: skip
        """Put messages into the turn of every shard of the route, or a single one with its place in its trace. Confirms
        of messages in a lane are not withheld. Return what waits to confirm them.
        """
        span = None
        if channel.confirms is not None and run.tag:
            if route.keepers:
                gates, fan = ((), None) if in_lane else (route.queue_gates, route.fan)
                span = Span(channel.confirms, run.tag, count, route.keepers, gates, channel, fan, route)
            else:
                confirm(channel, run.tag, count)
                self.acceptor.flush_first[channel.connection] = None
        if route.meters:
            nbytes = run.batch.body_bytes(run.first, count)
            for meter in route.meters:
                meter.spend(count, nbytes, channel)
        whole = run.batch.whole(run.first, count) if route.queue_gates else 0
        returns = Returns(channel, route.returning) if run.mandatory and route.returning else None
        age = self.age_of(channel, run, route, count) if run.since else 0
        for target in route.targets:
            awaited = span if target.keeps else None
            target.link.publish(target.queues, run.batch, run.first, count, awaited, returns, target.slots, age,
                                channel, trace)  # fmt: skip
            for queue_gate in target.queue_gates:
                target.link.enter(queue_gate, count, whole)
                if in_lane and queue_gate.lane_line is not None:
                    target.link.enter(queue_gate.lane_line, count, whole)
                if queue_gate.waiting.remembers and queue_gate.rounds is not None:
                    queue_gate.rounds.charge(queue_gate, channel, 0 if in_lane else count, 0 if in_lane else whole)
        self.acceptor.counters.published += count
        channel.traffic.published += count
        run.advance(count)
        return span

    def age_of(self, channel: ChannelState, run: ParkedRun, route: Route, count: int) -> int:
        """Return for how many milliseconds messages have been parked if some of them may expire, else 0."""
        age = int((self.acceptor.now - run.since) * 1000)
        if age > AGE_MS and (route.expires or run.batch.all_flags(run.first, count) & HAS_EXPIRATION):
            return age
        return 0

    def forward_by_properties(self, channel: ChannelState, run: ParkedRun, route: Route, most: int) -> None:
        """Send a run message by message, each along a route of its own. A share of the room is not enforced, but the
        gates are.
        """
        share = UNLIMITED if most == UNLIMITED else UNLIMITED - 1
        while run.count:
            route_of_it = self.route_by_properties(channel, run, route)
            if route_of_it is None:
                channel.wait_at(self.gates.routing)
                return
            single = first_of(run)
            self.forward_along(channel, single, route_of_it, share)
            if single.count:
                return
            run.advance(1)

    def route_by_properties(self, channel: ChannelState, run: ParkedRun, route: Route) -> Route | None:
        """Return the route that its properties give to the first message of a run; None if that needs another turn."""
        _, header, _ = run.batch.record(run.first)
        return self.routes.by_properties(channel, run, route, decode_some(header[PROPERTIES_AT:], route.reads))

    def next_piece(self, channel: ChannelState, rest: ParkedRun) -> tuple[ParkedRun, Route] | None:
        """Remove from a run the messages that go the same way; return them and their route, or None if that needs
        another turn. AMQPError if there is no such exchange.
        """
        route = self.routes.route_for(channel, rest)
        if route is None:
            return None
        if not route.by_properties:
            piece = ParkedRun(rest.address, rest.mandatory, rest.batch, rest.first, rest.count, 0, rest.further)
        else:
            route = self.route_by_properties(channel, rest, route)
            if route is None:
                return None
            piece = first_of(rest)
        rest.advance(piece.count)
        return piece, route


def fail_publish(channel: ChannelState, error: AMQPError) -> None:
    """End the channel, or the connection, for an error in a publish."""
    error.class_id, error.method_id = PUBLISH.class_id, PUBLISH.method_id
    channel.fail(error)


def room_of_newcomer(channel: ChannelState, gate: Gate) -> tuple[int, int]:
    """Return the (messages, bytes) that a channel that has not waited may send to a queue that was full lately."""
    assert isinstance(gate, QueueGate)
    assert gate.rounds is not None
    room, nbytes = gate.room()
    if room <= 0 or nbytes <= 0:
        return room, nbytes
    most = gate.rounds.newcomer(gate, channel)
    return (min(room, most), nbytes) if gate.counts() else (room, min(nbytes, most))


def first_of(run: ParkedRun) -> ParkedRun:
    """Return the first message of a run, as a run."""
    single = ParkedRun(run.address, run.mandatory, run.batch, run.first, 1, run.tag, run.further)
    single.since = run.since
    return single


def unroutable(channel: ChannelState, run: ParkedRun) -> None:
    """Return mandatory publishes that no queue takes; confirm these and the others."""
    if run.mandatory and channel.stage is not DETACHED:
        channel.connection.write_contents(channel.number, NO_ROUTE, 0, False, b"", run.batch, run.first, run.count)
        channel.traffic.returned += run.count
    else:
        channel.traffic.dropped += run.count
    if channel.confirms is not None and run.tag:
        confirm(channel, run.tag, run.count)
    run.advance(run.count)


def confirm(channel: ChannelState, first: int, count: int) -> None:
    """Confirm publishes, by tags from `first`, that no queue is to keep."""
    assert channel.confirms is not None
    channel.confirms.complete(first, count, False)
    channel.confirmed()
