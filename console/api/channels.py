"""Channels."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.api.clients import channel_facts, channel_name, channels, consumer_facts, visible
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, chosen, listed
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["channels"])


@router.get("/channels")
async def all_channels(caller: Called, wanted: Listed) -> Response:
    """All channels, or those of the user itself."""
    found = visible(caller, await channels(caller.broker))
    return listed([channel_facts(caller.broker, each) for each in found], wanted)


@router.get("/vhosts/{vhost}/channels")
async def channels_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The channels of connections to a vhost."""
    caller.must_see(vhost)
    found = visible(caller, await channels(caller.broker))
    return listed([channel_facts(caller.broker, each) for each in found if each["vhost"] == vhost], wanted)


@router.get("/channels/{name}")
async def one_channel(caller: Called, name: Segment, wanted: Listed) -> Response:
    """A channel with its consumers, by its name."""
    broker = caller.broker
    channel = next((each for each in await channels(broker) if channel_name(each) == name), None)
    if channel is None:
        raise not_found()
    if not visible(caller, [channel]):
        raise HttpError(401, "User not authorised to access object")
    consumers = [
        consumer_facts(broker, each)
        for each in await broker.ask_acceptors("all_consumers")
        if channel_name(each) == name
    ]
    return answer(chosen({**channel_facts(broker, channel), "consumer_details": consumers}, wanted.paths))
