"""Connections of clients."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from console.api.clients import (
    acceptor_of,
    channel_facts,
    channels,
    connection_facts,
    connection_name,
    connections,
    visible,
    with_terms,
)
from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, Listing, chosen, listed, listed_with
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["connections"])

CLOSED = "Closed via management plugin"
"""The reason that clients are given without another, as in RabbitMQ."""
REASON_MOST = 200


@router.get("/connections")
async def all_connections(caller: Called, wanted: Listed) -> Response:
    """All connections, or those of the user itself."""
    return await _listed(caller, await connections(caller.broker), wanted)


@router.get("/vhosts/{vhost}/connections")
async def connections_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The connections to a vhost."""
    caller.must_see(vhost)
    found = await connections(caller.broker)
    return await _listed(caller, [each for each in found if each["vhost"] == vhost], wanted)


@router.get("/connections/username/{user}")
async def connections_of_user(caller: Called, user: Segment, wanted: Listed) -> Response:
    """The connections of a user."""
    found = await connections(caller.broker)
    return await _listed(caller, [each for each in found if each["user"] == user], wanted)


@router.get("/connections/{name}")
async def one_connection(caller: Called, name: Segment, wanted: Listed) -> Response:
    """A connection, by its name or its id."""
    found = await _found(caller, name)
    (facts,) = await with_terms(caller.broker, [connection_facts(caller.broker, found)])
    return answer(chosen(facts, wanted.paths))


@router.get("/connections/{name}/channels")
async def channels_of_connection(caller: Called, name: Segment, wanted: Listed) -> Response:
    """The channels of a connection."""
    found = await _found(caller, name)
    of_acceptor = await channels(caller.broker, acceptor_of(found["connection"]))
    of_connection = [each for each in of_acceptor if each["connection"] == found["connection"]]
    return listed([channel_facts(caller.broker, each) for each in of_connection], wanted)


@router.delete("/connections/{name}")
async def close(caller: Called, name: Segment, x_reason: Annotated[str, Header()] = CLOSED) -> Response:
    """Close a connection: its client gets 320 CONNECTION_FORCED, with the reason."""
    await _close(caller, await _found(caller, name), x_reason)
    return nothing()


@router.delete("/connections/username/{user}")
async def close_all(caller: Called, user: Segment, x_reason: Annotated[str, Header()] = CLOSED) -> Response:
    """Close all connections of a user."""
    for connection in await caller.broker.ask_acceptors("connections"):
        if connection["user"] == user:
            await _close(caller, connection, x_reason)
    return nothing()


async def _listed(caller: Caller, found: list[Facts], wanted: Listing) -> Response:
    rows = [connection_facts(caller.broker, each) for each in visible(caller, found)]
    return await listed_with(rows, wanted, partial(with_terms, caller.broker))


async def _found(caller: Caller, name: str) -> Facts:
    """Return the connection of a name. HttpError if there is none, or the user may not see it."""
    for connection in await connections(caller.broker):
        if name in (connection_name(connection), connection["connection"]):
            if not visible(caller, [connection]):
                raise HttpError(401, "User not authorised to access object")
            return connection
    raise not_found()


async def _close(caller: Caller, connection: Facts, reason: str) -> None:
    if not (caller.is_administrator or connection["user"] == caller.user):
        raise HttpError(401, "Not administrator user")
    id = connection["connection"]
    await caller.ask("acceptor", acceptor_of(id), "close", connection=id, reason=reason[:REASON_MOST])
