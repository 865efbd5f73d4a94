"""Limits of vhosts and users: the numbers of connections, queues, … that they may have."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from console.broker import Facts
from console.http.access import Called
from console.http.answers import nothing
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.listing import Listed, listed
from console.http.segments import Segment
from router.model.resource_limits import Holder, Scope

router = APIRouter(prefix="/api", tags=["limits"])


class Wanted(BaseModel):
    """The number of a limit; -1 is none."""

    model_config = ConfigDict(extra="ignore", strict=True)

    value: int


@router.get("/vhost-limits")
async def vhost_limits(caller: Called, wanted: Listed) -> Response:
    """The limits of all vhosts that the user sees and that have any."""
    return listed([each for vhost in caller.vhosts() for each in _set(caller, Holder("vhost", vhost))], wanted)


@router.get("/vhost-limits/{vhost}")
async def limits_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The limits of a vhost."""
    caller.must_see(vhost)
    return listed(_set(caller, Holder("vhost", vhost)), wanted)


@router.put("/vhost-limits/{vhost}/{limit}")
async def set_vhost_limit(caller: Called, vhost: Segment, limit: Segment, wanted: Wanted) -> Response:
    """Set a limit of a vhost."""
    return await _put(caller, "vhost", vhost, limit, wanted)


@router.delete("/vhost-limits/{vhost}/{limit}")
async def delete_vhost_limit(caller: Called, vhost: Segment, limit: Segment) -> Response:
    """Return a limit of a vhost to the node's default."""
    return await _delete(caller, "vhost", vhost, limit)


@router.get("/user-limits")
async def user_limits(caller: Called, wanted: Listed) -> Response:
    """The limits of all users that have any, or those of the user itself."""
    users = caller.broker.topology.users.all()
    names = sorted(user.name for user in users if caller.is_administrator or user.name == caller.user)
    return listed([each for name in names for each in _set(caller, Holder("user", name))], wanted)


@router.get("/user-limits/{user}")
async def limits_of_user(caller: Called, user: Segment, wanted: Listed) -> Response:
    """The limits of a user."""
    if user != caller.user:
        caller.must_administer()
    if caller.broker.topology.users.user(user) is None:
        raise not_found()
    return listed(_set(caller, Holder("user", user)), wanted)


@router.put("/user-limits/{user}/{limit}")
async def set_user_limit(caller: Called, user: Segment, limit: Segment, wanted: Wanted) -> Response:
    """Set a limit of a user."""
    return await _put(caller, "user", user, limit, wanted)


@router.delete("/user-limits/{user}/{limit}")
async def delete_user_limit(caller: Called, user: Segment, limit: Segment) -> Response:
    """Return a limit of a user to the node's default."""
    return await _delete(caller, "user", user, limit)


def _set(caller: Caller, holder: Holder) -> list[Facts]:
    """Return the limits that are set for a vhost or user, as a list of one; empty if there are none."""
    found = caller.broker.topology.limits.of(holder)
    return [{holder.scope: holder.name, "value": dict(found)}] if found else []


async def _put(caller: Caller, scope: Scope, name: str, limit: str, wanted: Wanted) -> Response:
    caller.must_administer()
    await caller.administer("limits_set", scope=scope, name=name, limits={limit: wanted.value})
    return nothing()


async def _delete(caller: Caller, scope: Scope, name: str, limit: str) -> Response:
    caller.must_administer()
    await caller.administer("limits_clear", scope=scope, name=name, limit=limit)
    return nothing()
