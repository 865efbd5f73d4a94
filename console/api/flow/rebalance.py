"""Plans of moves: made, applied and aborted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer
from router.model.topology import Topology

router = APIRouter(prefix="/api/rebalance", tags=["shards"])

PLAN_ID = r"^[0-9]{8}-[0-9]{6}-[0-9a-f]{8}$"
"""The command would read any other name as that of a file."""
WINDOW_MOST = 300
SHARDS_MOST = 256
MOVES_MOST = 1_000_000
NAME_MOST = 200
"""Characters of a plan's id: a plan from a file may have another than those made here."""
OF_A_MOVE = ("source", "target", "phase", "plan", "since", "count", "size")


class Making(BaseModel):
    """A plan to make: for how many seconds the load of queues is watched, how many moves it may have (None: as the
    settings say), and the shards that all queues leave.
    """

    model_config = ConfigDict(extra="forbid")

    window: int = Field(ge=1, le=WINDOW_MOST)
    moves_max: int | None = Field(default=None, ge=1, le=MOVES_MOST)
    leave: list[Annotated[int, Field(ge=0, lt=SHARDS_MOST)]] = Field(default=[], max_length=SHARDS_MOST)


class Applying(BaseModel):
    """The plan to apply, by its id."""

    model_config = ConfigDict(extra="forbid")

    plan: str = Field(pattern=PLAN_ID)


class Aborting(BaseModel):
    """The plan to abort, by its id; None aborts the plan that is being applied."""

    model_config = ConfigDict(extra="forbid")

    plan: str | None = Field(default=None, max_length=NAME_MOST)


@router.get("")
async def rebalance(caller: Called) -> Response:
    """The moves in progress; the lease of the plan that is being applied; what this interface does for its users, and
    the outcome of the last plan that it applied.
    """
    caller.must_monitor()
    topology, rebalancing = caller.broker.topology, caller.broker.rebalancing
    lease = await caller.broker.administer("rebalance_lease")
    return answer(
        {
            "placement_version": topology.placement_version,
            "moves": _moves(topology),
            "lease": lease,
            "planning": rebalancing.planning,
            "applying": rebalancing.applying,
            "last": rebalancing.last,
        }
    )


@router.post("/plan")
async def make_plan(caller: Called, wanted: Making) -> Response:
    """Make a plan from the load of the next `window` seconds; nothing is moved. Answered when it is made, as
    `penstock rebalance plan --json` prints it. 409 while another is being made.
    """
    caller.must_administer()
    return answer(await caller.make_plan(wanted.window, wanted.moves_max, wanted.leave))


@router.post("/apply")
async def apply_plan(caller: Called, wanted: Applying) -> Response:
    """Begin to apply a plan; GET shows its progress, then its outcome. 409 while this interface applies another."""
    caller.must_administer()
    return answer(await caller.apply_plan(wanted.plan), 202)


@router.post("/abort")
async def abort_plan(caller: Called, wanted: Aborting | None = None) -> Response:
    """Ask for the end of the plan that is being applied: its lease. The present move is rolled back if
    it still can be. 404 if none is being applied.
    """
    caller.must_administer()
    return answer(await caller.administer("rebalance_abort", plan=None if wanted is None else wanted.plan))


def _moves(topology: Topology) -> list[Facts]:
    """Return the moves in progress; a queue that was deleted meanwhile has none."""
    found = []
    for move in topology.moves.values():
        queue = topology.queue_by_id(move.queue_id)
        if queue is not None:
            facts = {name: getattr(move, name) for name in OF_A_MOVE}
            found.append({"vhost": queue.vhost, "name": queue.name, **facts})
    return found
