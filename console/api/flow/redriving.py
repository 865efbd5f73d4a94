"""Messages moved from queue to queue, and dead letters back to where they came from: as the user's client would."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.http.access import Called
from console.http.answers import answer
from console.http.segments import Segment

router = APIRouter(prefix="/api/queues/{vhost}/{name}", tags=["messages"])

COUNT_MOST = 1000


class Redrive(BaseModel):
    """How many messages to move at most."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(default=100, ge=1, le=COUNT_MOST)


class Transfer(Redrive):
    """The queue to move messages to."""

    target: str = Field(min_length=1, max_length=255)


@router.post("/redrive")
async def redrive(caller: Called, vhost: Segment, name: Segment, wanted: Redrive) -> Response:
    """Send dead letters back to the exchange to which they were published before their first death; to the queue in
    which they died, if that exchange is gone or has no route. Others stay.

    They go one by one, each acked once it is confirmed, for five seconds at most: {moved, kept, remaining, stopped}.
    `kept` could not go (250 at most, then it ends), `remaining` are ready, and `stopped` says why there was no room.
    """
    return answer(await caller.move_messages(vhost, queue=name, target="", count=wanted.count))


@router.post("/move-messages")
async def move_messages(caller: Called, vhost: Segment, name: Segment, wanted: Transfer) -> Response:
    """Move messages to another queue of the vhost; limits and answer are those of `redrive`."""
    return answer(await caller.move_messages(vhost, queue=name, target=wanted.target, count=wanted.count))
