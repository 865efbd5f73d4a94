"""Stops by hand: publishes that match wait until the stop is lifted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.api.flow.watching import publish_rates
from console.broker import Facts
from console.flow.matching import Selector, matching
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import HttpError
from console.http.listing import Listed, listed

router = APIRouter(prefix="/api/flow/stops", tags=["flow"])


class Scope(BaseModel):
    """The publishes that a stop concerns: those that match all that is given. `all` says that nothing is, on
    purpose.
    """

    model_config = ConfigDict(extra="forbid")

    vhost: str | None = None
    exchange: str | None = None
    key: str | None = None
    queue: str | None = None
    user: str | None = None
    connection: str | None = None
    all: bool = False

    @property
    def names(self) -> Selector:
        """The given names. HttpError for none without `all`, and for some with it."""
        names = self.model_dump(exclude={"all", "reason", "seconds"})
        if self.all == any(name is not None for name in names.values()):
            raise HttpError(400, "give all, or any of vhost, exchange, key, queue, user and connection")
        if self.vhost is None and any(names[name] is not None for name in ("exchange", "key", "queue")):
            names["vhost"] = "/"
        return Selector(**names)


class Stop(Scope):
    """A stop to make: its reason, which clients are told, and for how many seconds (None: until it is lifted)."""

    reason: str = ""
    seconds: float | None = Field(default=None, gt=0)


@router.get("")
async def stops(caller: Called, wanted: Listed) -> Response:
    """The stops in force that concern vhosts which the user sees."""
    found = caller.broker.stops()
    return listed([each for each in found if each["vhost"] is None or caller.sees(each["vhost"])], wanted)


@router.post("")
async def stop(caller: Called, wanted: Stop) -> Response:
    """Stop producers. A stop replaces one with the same scope."""
    names = wanted.names
    _check(caller, names.vhost)
    made = await caller.administer(
        "flow_stop", author=caller.user, reason=wanted.reason, seconds=wanted.seconds, **names._asdict()
    )
    return answer(made, 201)


@router.post("/try")
async def try_stop(caller: Called, wanted: Stop) -> Response:
    """The channels that a stop would hold at present, and their publish rates, watched for a second: {channels,
    per_second, rows}.
    """
    names = wanted.names
    _check(caller, names.vhost)
    publishing = await caller.broker.ask_acceptors("publishing")
    topology = caller.broker.topology
    found = [each for each in publishing if matching(names, each, topology.queue_by_id)]
    rates = await publish_rates(caller.broker) if found else []
    per_second: dict[tuple[str, int], float] = {}
    for each in rates:
        place = each["connection"], each["channel"]
        per_second[place] = per_second.get(place, 0.0) + each["messages"]
    rows: list[Facts] = [
        {
            **{name: each[name] for name in ("connection", "channel", "user", "vhost", "client", "peer", "held_by")},
            "per_second": round(per_second.get((each["connection"], each["channel"]), 0.0), 1),
        }
        for each in found
    ]
    return answer(
        {"channels": len(rows), "per_second": round(sum(each["per_second"] for each in rows), 1), "rows": rows}
    )


@router.delete("/{number}")
async def lift(caller: Called, number: int) -> Response:
    """Lift a stop. Channels that are held for another reason stay held."""
    known = caller.broker.topology.stops.get(number)
    if known is None:
        raise HttpError(404, f"there is no stop {number}")
    _check(caller, known.vhost)
    return answer(await caller.administer("flow_lift", number=number))


@router.delete("")
async def lift_several(caller: Called, numbers: Annotated[str, Query(max_length=20_000)]) -> Response:
    """Lift the stops of these numbers, separated by commas: those that were seen, not others made since."""
    try:
        wanted = [int(number) for number in numbers.split(",") if number]
    except ValueError:
        raise HttpError(400, "numbers are those of stops, separated by commas") from None
    known = [stop for number in wanted if (stop := caller.broker.topology.stops.get(number)) is not None]
    for each in known:
        _check(caller, each.vhost)
    for each in known:
        await caller.administer("flow_lift", number=each.number)
    return nothing()


def _check(caller: Caller, vhost: str | None) -> None:
    """Check that a user may stop publishes of a vhost, or (None) of all: a policymaker there, an administrator."""
    if vhost is None:
        caller.must_administer()
    else:
        caller.must_make_policies(vhost)
