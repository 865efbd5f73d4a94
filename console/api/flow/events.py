"""Changes of flow control as server-sent events (HTML Living Standard, 9.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from console.flow.feed import Event
from console.http.access import Called
from console.http.errors import HttpError
from console.watch import Follower, Watch
from penstock.text.utf8 import readable

router = APIRouter(prefix="/api/flow", tags=["flow"])

PING_SECONDS = 15.0
PING = b": ping\n\n"


@router.get("/events")
async def events(caller: Called, request: Request) -> Response:
    """A stream of events (`console.flow.feed`): a snapshot first, or what was missed since the event whose number is in
    the header Last-Event-ID.
    """
    watch: Watch = request.app.state.watch
    if watch.is_full:
        raise HttpError(503, "too many follow the events already")
    given = request.headers.get("last-event-id", "")
    last = int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else None
    follower = Follower(caller.sees)
    first = await watch.subscribe(follower, last)
    return StreamingResponse(_stream(watch, follower, first), media_type="text/event-stream")


async def _stream(watch: Watch, follower: Follower, first: list[Event]) -> AsyncIterator[bytes]:
    try:
        for event in first:
            yield _encoded(event)
        while True:
            try:
                waiting = await asyncio.wait_for(follower.events.get(), PING_SECONDS)
            except TimeoutError:
                yield PING
                continue
            if waiting is None:
                return
            if follower.has_missed:
                follower.forget()
                waiting = watch.snapshot(follower)
            yield _encoded(waiting)
    finally:
        watch.leave(follower)


def _encoded(event: Event) -> bytes:
    data = orjson.dumps(readable(event.facts))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), data)
