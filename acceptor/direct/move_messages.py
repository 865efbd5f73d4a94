"""Messages moved to another queue, or dead letters back to where they came from, for a user of the HTTP interface.

One message after the other is got, published as the user's client would publish it, and acked once it is confirmed: if
a process dies in between the message is in both places, never in none. A move ends when the queue is empty, after
`count` messages or `MOVE_SECONDS`, and when a message finds no room: the rest stays.

Messages that cannot go (no dead letters, or without a route) are kept unacked until the end, and are back in their
places then; at most `KEPT_MOST`, or the move ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptor.direct.clients import DirectClients
from acceptor.direct.connection import Contents, DirectConnection
from acceptor.direct.steps import BASIC_GET, NoRoom, Steps, published, settled
from penstock.amqp.deaths import origin_of
from penstock.amqp.properties import PROPERTIES_AT
from penstock.control.control import Refusal
from router.model.records import described

MOVE_SECONDS = 5.0
KEPT_MOST = 250

Way = tuple[str, str]
"""Exchange and routing key."""


def move_messages(clients: DirectClients, connection: DirectConnection, queue: str, target: str, count: int) -> Steps:
    """Move up to `count` messages to the queue `target`, or ("") dead letters back to their exchanges.

    The result is {moved, kept, remaining, stopped}: `kept` messages could not go, `remaining` are ready, and `stopped`
    is the reason if there was no room (None otherwise).
    """
    channel = connection.channel
    _check(connection, queue, target)
    until = channel.acceptor.now + MOVE_SECONDS
    moved = kept = remaining = 0
    stopped = None
    while moved < count and kept < KEPT_MOST and channel.acceptor.now < until:
        connection.got = None
        yield from channel.call(BASIC_GET, {"queue": queue, "no_ack": False})
        got = connection.got
        remaining = 0 if got is None else got.remaining
        if got is None:
            break
        try:
            gone = yield from _sent(clients, connection, got, target)
        except NoRoom as refusal:
            stopped, remaining = str(refusal), remaining + 1
            break
        if gone:
            channel.settle(got.tag, "basic_ack", multiple=False)
        moved, kept = moved + gone, kept + (not gone)
    connection.end()  # before a publish without room may find some, as its message stays
    yield from settled(channel, queue)
    return {"moved": moved, "kept": kept, "remaining": remaining + kept, "stopped": stopped}


def _check(connection: DirectConnection, queue: str, target: str) -> None:
    """Check that a target can be moved to. Refusal if not."""
    vhost = connection.access.vhost
    if target == queue:
        raise Refusal("invalid", "source and target are the same queue")
    if target and connection.acceptor.topology.queue(vhost, target) is None:
        raise Refusal("not_found", f"no {described('queue', target, vhost)}")


def _sent(clients: DirectClients, connection: DirectConnection, got: Contents, target: str) -> Steps:
    """Publish a message on the first way that has a route; return whether there was one."""
    properties = got.header[PROPERTIES_AT:]
    for exchange, key in _ways(properties, target):
        known = not exchange or connection.acceptor.topology.exchange(connection.access.vhost, exchange) is not None
        if known and (yield from published(clients, connection, exchange, key, properties, got.body)):
            return True
    return False


def _ways(properties: bytes, target: str) -> Iterator[Way]:
    if target:
        yield "", target
        return
    origin = origin_of(properties)
    if origin is None:
        return
    if origin.exchange is not None:
        yield origin.exchange, origin.routing_key
    yield "", origin.queue
