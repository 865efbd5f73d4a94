"""Moves of queues to other shards."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.http.access import Called
from console.http.answers import answer
from console.http.errors import HttpError, not_found
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["shards"])

DONE = ("moved", "already-there")


class Move(BaseModel):
    """The shard that a queue goes to."""

    model_config = ConfigDict(extra="forbid")

    shard: int = Field(ge=0)


@router.post("/queues/{vhost}/{name}/move")
async def move(caller: Called, vhost: Segment, name: Segment, wanted: Move) -> Response:
    """Move a queue with its messages to another shard, while it is in use; answered when that is over. 409 if the queue
    was not moved: it is then where it was.
    """
    caller.must_administer()
    caller.must_see(vhost)
    if caller.broker.topology.queue(vhost, name) is None:
        raise not_found()
    found = await caller.administer(
        "queue_move", vhost=vhost, name=name, shard=wanted.shard, placement_version=None, plan=None
    )
    if found["result"] not in DONE:
        raise HttpError(409, f"queue '{name}' is not moved, {found['result']}: {found['reason']}")
    return answer(found)


@router.delete("/queues/{vhost}/{name}/move")
async def abort(caller: Called, vhost: Segment, name: Segment) -> Response:
    """Roll back the move of a queue, unless it has been completed: {rolled_back}."""
    caller.must_administer()
    caller.must_see(vhost)
    return answer({"rolled_back": await caller.administer("queue_move_abort", vhost=vhost, name=name)})
