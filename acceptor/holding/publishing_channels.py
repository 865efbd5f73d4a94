"""The answer of an acceptor about its publishing channels: those that have published, or are held.

    question    answer
    publishing  [{connection, channel, user, vhost, client, peer, held_by (None: by nothing), held_seconds,
                       parked_bytes, routes: [{exchanges, routing_key, queues, powerless (ids)}]}]

Routes are the last that the channel has published along, at most `channel_routes.MOST`, as they are now: grants made
since count. The first of the exchanges is the one that was published to; the `powerless` among the queues
can do nothing to what takes the route (router/model/grants.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from acceptor.routing.routing import Unfinished
from penstock.amqp.errors import AMQPError

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState
    from acceptor.routing.route import Route
    from acceptor.routing.routes import Routes


def channels(acceptor: AcceptorState, routes: Routes) -> list[dict[str, Any]]:
    """Return the answer to the question `publishing`."""
    return [
        entry_of(channel, routes)
        for channel in acceptor.channels()
        if channel.routes.recent or channel.held_by is not None
    ]


def state(channel: ChannelState) -> dict[str, Any]:
    """Return the fields that identify a channel, how long it is held, and how many bytes of it are parked."""
    return {
        **channel.whose(),
        "held_seconds": channel.held_seconds(),
        "parked_bytes": sum(item.nbytes for item in channel.inbox),
    }


def recent_routes(channel: ChannelState, routes: Routes) -> Iterable[Route]:
    """Return a channel's last routes as they are at present; where properties decide, as they were."""
    found: dict[Route, None] = {}
    for route in channel.routes.recent:
        try:
            now = routes.find(channel, route.address(), route.further)
        except AMQPError:  # the exchange is deleted, or the user may not publish there
            continue
        except Unfinished:
            now = route
        found[route if now.by_properties else now] = None
    return found


def entry_of(channel: ChannelState, routes: Routes) -> dict[str, Any]:
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
            for route in recent_routes(channel, routes)
        ],
    }
