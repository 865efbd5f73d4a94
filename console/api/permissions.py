"""Permissions of users in vhosts, and topic permissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, listed
from console.http.segments import Segment
from router.model.users import Permission, TopicPermission


async def _administers(caller: Called) -> Caller:
    caller.must_administer()
    return caller


Administrator = Annotated[Caller, Depends(_administers)]

router = APIRouter(prefix="/api", tags=["permissions"])


class Rights(BaseModel):
    """A permission: regular expressions over names of queues and exchanges."""

    model_config = ConfigDict(extra="ignore")

    configure: str
    write: str
    read: str


class TopicRights(BaseModel):
    """A topic permission: regular expressions over routing keys of an exchange."""

    model_config = ConfigDict(extra="ignore")

    exchange: str
    write: str
    read: str


# Permissions


@router.get("/permissions")
async def permissions(caller: Administrator, wanted: Listed) -> Response:
    """All permissions."""
    return listed(_facts(caller.broker.topology.users.permissions()), wanted)


@router.get("/vhosts/{vhost}/permissions")
async def permissions_in_vhost(caller: Administrator, vhost: Segment, wanted: Listed) -> Response:
    """The permissions in a vhost."""
    caller.must_see(vhost)
    return listed(_facts(caller.broker.topology.users.permissions(vhost=vhost)), wanted)


@router.get("/users/{user}/permissions")
async def permissions_of_user(caller: Administrator, user: Segment, wanted: Listed) -> Response:
    """The permissions of a user."""
    _check_user(caller, user)
    return listed(_facts(caller.broker.topology.users.permissions(user=user)), wanted)


@router.get("/permissions/{vhost}/{user}")
async def permission(caller: Administrator, vhost: Segment, user: Segment) -> Response:
    """The permission of a user in a vhost."""
    found = caller.broker.topology.users.permission(user, vhost)
    if found is None:
        raise not_found()
    return answer(asdict(found))


@router.put("/permissions/{vhost}/{user}")
async def set_permission(caller: Administrator, vhost: Segment, user: Segment, rights: Rights) -> Response:
    """Set the permission of a user in a vhost."""
    _check_named(caller, vhost, user)
    new = caller.broker.topology.users.permission(user, vhost) is None
    await caller.administer("permission_set", user=user, vhost=vhost, **rights.model_dump())
    return nothing(201 if new else 204)


@router.delete("/permissions/{vhost}/{user}")
async def delete_permission(caller: Administrator, vhost: Segment, user: Segment) -> Response:
    """Delete the permission of a user in a vhost."""
    await caller.administer("permission_delete", user=user, vhost=vhost)
    return nothing()


# Topic permissions


@router.get("/topic-permissions")
async def topic_permissions(caller: Administrator, wanted: Listed) -> Response:
    """All topic permissions."""
    return listed(_facts(caller.broker.topology.users.topic_permissions()), wanted)


@router.get("/vhosts/{vhost}/topic-permissions")
async def topic_permissions_in_vhost(caller: Administrator, vhost: Segment, wanted: Listed) -> Response:
    """The topic permissions in a vhost."""
    caller.must_see(vhost)
    return listed(_facts(caller.broker.topology.users.topic_permissions(vhost=vhost)), wanted)


@router.get("/users/{user}/topic-permissions")
async def topic_permissions_of_user(caller: Administrator, user: Segment, wanted: Listed) -> Response:
    """The topic permissions of a user."""
    _check_user(caller, user)
    return listed(_facts(caller.broker.topology.users.topic_permissions(user=user)), wanted)


@router.get("/topic-permissions/{vhost}/{user}")
async def topic_permissions_of(caller: Administrator, vhost: Segment, user: Segment) -> Response:
    """The topic permissions of a user in a vhost."""
    found = caller.broker.topology.users.topic_permissions(user, vhost)
    if not found:
        raise not_found()
    return answer(_facts(found))


@router.put("/topic-permissions/{vhost}/{user}")
async def set_topic_permission(caller: Administrator, vhost: Segment, user: Segment, rights: TopicRights) -> Response:
    """Set the topic permission of a user for an exchange."""
    _check_named(caller, vhost, user)
    new = not caller.broker.topology.users.topic_permissions(user, vhost)
    await caller.administer("topic_permission_set", user=user, vhost=vhost, **rights.model_dump())
    return nothing(201 if new else 204)


@router.delete("/topic-permissions/{vhost}/{user}")
async def delete_topic_permissions(caller: Administrator, vhost: Segment, user: Segment) -> Response:
    """Delete all topic permissions of a user in a vhost."""
    await caller.administer("topic_permission_delete", user=user, vhost=vhost, exchange=None)
    return nothing()


@router.delete("/topic-permissions/{vhost}/{user}/{exchange}")
async def delete_topic_permission(caller: Administrator, vhost: Segment, user: Segment, exchange: Segment) -> Response:
    """Delete the topic permission of a user for an exchange."""
    await caller.administer("topic_permission_delete", user=user, vhost=vhost, exchange=exchange)
    return nothing()


def _facts(found: Sequence[Permission | TopicPermission]) -> list[Facts]:
    return [asdict(each) for each in sorted(found, key=lambda each: (each.vhost, each.user))]


def _check_user(caller: Caller, name: str) -> None:
    if caller.broker.topology.users.user(name) is None:
        raise not_found()


def _check_named(caller: Caller, vhost: str, user: str) -> None:
    """Refuse a permission in a vhost, or of a user, that does not exist."""
    if not caller.broker.topology.has_vhost(vhost):
        raise HttpError(400, f"there is no vhost '{vhost}'")
    if caller.broker.topology.users.user(user) is None:
        raise HttpError(400, f"there is no user '{user}'")
