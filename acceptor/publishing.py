"""What becomes of a channel's publishes: routed, let through the gates as far as there is room, put into the turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from acceptor.confirms import Span
from acceptor.examined import EXAMINED, examined
from acceptor.inlet import UNLIMITED, Gate
from acceptor.parked import ParkedRun
from acceptor.routes import Route
from acceptor.sessions import note
from penstock.amqp.encode_cy import RETURN
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.properties import headers
from penstock.amqp.scan_cy import PublishRun
from penstock.amqp.spec import BY_NAME
from penstock.batch_cy import HAS_HEADERS

if TYPE_CHECKING:
    from acceptor.channel import Channel

PUBLISH = BY_NAME["basic_publish"]
NO_ROUTE = RETURN + (312).to_bytes(2, "big") + b"\x08NO_ROUTE"


def take(channel: Channel, run: PublishRun) -> None:
    """Publishes arrived: those that may be taken are. One that may not be ends the channel, or the connection."""
    if run.immediate:
        channel.fail(amqp_error(540, "immediate=true", PUBLISH))
    elif run.batch.all_flags(0, run.batch.count) & EXAMINED:
        try:
            for piece in examined(channel, run):
                accept(channel, piece)
                if channel.closing:
                    return
        except AMQPError as error:
            refuse(channel, error)
    else:
        accept(channel, ParkedRun(run.address, run.mandatory, run.batch, 0, run.batch.count, 0))


def accept(channel: Channel, run: ParkedRun) -> None:
    """Send what there is room for, park the rest."""
    if channel.confirms is not None:
        run.tag = channel.confirms.number(run.count)
    if channel.running is None and not channel.inbox:
        forward(channel, run, UNLIMITED)
    if run.count and not channel.closing:
        channel.park(run)


def refuse(channel: Channel, error: AMQPError) -> None:
    error.class_id, error.method_id = PUBLISH.class_id, PUBLISH.method_id
    channel.fail(error)


def forward(channel: Channel, run: ParkedRun, most: int) -> int:
    """Send what there is room for, at most that many; how many went. `run` keeps the rest."""
    before = run.count
    try:
        route = channel.core.routes.find(channel.access, run.address, run.further)
        if channel.transaction is not None:
            note(channel, route)
            channel.transaction.publish(run)
        elif route.by_headers:
            forward_by_headers(channel, run, route, most)
        else:
            forward_along(channel, run, route, most)
    except AMQPError as error:
        run.count = 0
        refuse(channel, error)
        return before
    return before - run.count


def forward_along(channel: Channel, run: ParkedRun, route: Route, most: int) -> None:
    gates = route.gates_for(channel.connection.id)
    if not gates:
        unroutable(channel, run)
        return
    if route is not channel.route:
        note(channel, route)
    fresh = most == UNLIMITED
    while run.count and most > 0:
        count = fitting(run, gates, min(run.count, most), fresh)
        if count:
            dispatch(channel, run, route, count)
            most -= count
        elif wait_at_closed(channel, gates, fresh):
            return
    if run.count:
        # Its share is used up though there may be room: others are next, and what it sent brings its turn again.
        channel.wait_at(gates[-1])


def fitting(run: ParkedRun, gates: Sequence[Gate], count: int, fresh: bool) -> int:
    """How many messages all gates have room for; a newcomer does not overtake those who wait."""
    for gate in gates:
        if fresh and gate.waiting:
            return 0
        room, octets = gate.room()
        count = min(count, room)
        if octets < UNLIMITED and count:
            fit = run.batch.fit(run.first, count, octets)
            count = fit if fit or octets == 0 else 1
        if count == 0:
            return 0
    return count


def wait_at_closed(channel: Channel, gates: Sequence[Gate], fresh: bool) -> bool:
    """Wait at every gate that has no room; whether there is one."""
    for gate in gates:
        if (fresh and gate.waiting) or min(gate.room()) <= 0:
            channel.wait_at(gate)
    return bool(channel.gates)


def dispatch(channel: Channel, run: ParkedRun, route: Route, count: int) -> None:
    """Put messages into the turn of every shard of the route."""
    span = None
    if channel.confirms is not None and run.tag:
        span = Span(channel.confirms, run.tag, count, len(route.targets), route.inlets, channel)
    octets = run.batch.body_bytes(run.first, count) if route.inlets else 0
    for target in route.targets:
        target.link.publish(target.queues, run.batch, run.first, count, span)
        for inlet in target.inlets:
            inlet.entered(count, octets)
            target.link.under_way(inlet, count, octets)
    channel.core.published(count)
    run.advance(count)


def forward_by_headers(channel: Channel, run: ParkedRun, route: Route, most: int) -> None:
    """Each message has a route of its own. A share of the room is not kept to: the gates bound it all the same."""
    share = UNLIMITED if most == UNLIMITED else UNLIMITED - 1
    while run.count:
        single, route_of_it = first_by_headers(channel, run, route)
        forward_along(channel, single, route_of_it, share)
        if single.count:
            return
        run.advance(1)


def first_by_headers(channel: Channel, run: ParkedRun, route: Route) -> tuple[ParkedRun, Route]:
    """The first message of a run, and the route that its headers give it."""
    _, header, _ = run.batch.record(run.first)
    found = headers(header[12:]) if run.batch.flags(run.first) & HAS_HEADERS else {}
    single = ParkedRun(run.address, run.mandatory, run.batch, run.first, 1, run.tag, run.further)
    return single, channel.core.routes.by_headers(channel.access, route, found)


def routed(channel: Channel, run: ParkedRun) -> Iterator[tuple[ParkedRun, Route]]:
    """A run in pieces that go the same way. AMQPError if there is no such exchange."""
    route = channel.core.routes.find(channel.access, run.address, run.further)
    if not route.by_headers:
        yield run, route
        return
    rest = ParkedRun(run.address, run.mandatory, run.batch, run.first, run.count, 0, run.further)
    while rest.count:
        yield first_by_headers(channel, rest, route)
        rest.advance(1)


def unroutable(channel: Channel, run: ParkedRun) -> None:
    """No queue takes it: a mandatory message comes back, and both kinds count as confirmed."""
    if run.mandatory and not channel.detached:
        channel.connection.write_contents(channel.number, NO_ROUTE, 0, False, b"", run.batch, run.first, run.count)
    if channel.confirms is not None and run.tag:
        channel.confirms.complete(run.tag, run.count, False)
        channel.confirmed()
    run.advance(run.count)
