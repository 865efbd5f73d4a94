"""Consumers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.api.clients import consumer_facts, visible
from console.http.access import Called
from console.http.listing import Listed, listed
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["consumers"])


@router.get("/consumers")
async def all_consumers(caller: Called, wanted: Listed) -> Response:
    """All consumers, or those of the user itself."""
    found = visible(caller, await caller.broker.ask_acceptors("all_consumers"))
    return listed([consumer_facts(caller.broker, each) for each in found], wanted)


@router.get("/consumers/{vhost}")
async def consumers_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The consumers of queues in a vhost."""
    caller.must_see(vhost)
    found = visible(caller, await caller.broker.ask_acceptors("all_consumers"))
    return listed([consumer_facts(caller.broker, each) for each in found if each["vhost"] == vhost], wanted)
