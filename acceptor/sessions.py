"""The answer of an acceptor about its publishing channels: those that have published, or are held.

    question    answer
    sessions    [{connection, channel, user, vhost, client, peer, held_by (None: by nothing), held_seconds,
                       parked_bytes, routes: [{exchanges, routing_key, queues, powerless (ids)}]}]

Routes are the last ones along which the channel has published, at most `ROUTES`, by the present permissions. The first
of the exchanges is the one that was published to; `powerless` queues can neither hold nor refuse publishes of the route
(router/model/grants.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from acceptor import unread
from acceptor.routing import Unfinished
from penstock.amqp.errors import AMQPError

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.core import AcceptorCore
    from acceptor.route import Route

ROUTES = 16


def note(channel: Channel, route: Route) -> None:
    """Record that a channel publishes along another route than before."""
    channel.route = route
    channel.routes[route] = None
    if len(channel.routes) > ROUTES:
        del channel.routes[next(iter(channel.routes))]


def sessions(core: AcceptorCore) -> list[dict[str, Any]]:
    """Return the answer to the question `sessions`."""
    return [
        told(channel)
        for connection in core.connections.values()
        for channel in connection.channels.values()
        if channel.routes or channel.held_by is not None
    ]


def whose(channel: Channel) -> dict[str, Any]:
    """Return the fields that identify a channel."""
    return {**unread.whose(channel.connection), "channel": channel.number}


def state(channel: Channel) -> dict[str, Any]:
    """Return the fields that identify a channel, how long it is held, and how many bytes of it are parked."""
    return {
        **whose(channel),
        "held_seconds": 0.0 if channel.held_by is None else round(channel.core.now - channel.held_since, 3),
        "parked_bytes": sum(item.octets for item in channel.inbox),
    }


def lately(channel: Channel) -> Iterable[Route]:
    """Return a channel's last routes as they are at present; where headers decide, as they were."""
    found: dict[Route, None] = {}
    for route in channel.routes:
        try:
            now = channel.core.routes.find(channel, route.address(), route.further)
        except AMQPError:  # the exchange is deleted, or the user may not publish there
            continue
        except Unfinished:
            now = route
        found[route if now.by_headers else now] = None
    return found


def told(channel: Channel) -> dict[str, Any]:
    """Return a channel's entry in the answer."""
    return {
        **state(channel),
        "held_by": None if channel.held_by is None else str(channel.held_by),
        "routes": [
            {
                "exchanges": list(route.exchanges) or [route.exchange],
                "routing_key": route.key,
                "queues": [id for target in route.targets for id in target.queues if isinstance(id, int)],
                "powerless": sorted(route.powerless),
            }
            for route in lately(channel)
        ],
    }
