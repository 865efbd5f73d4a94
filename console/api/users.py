"""Users. Passwords are hashed here; hashes that RabbitMQ has made are taken too."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, listed
from console.http.segments import Segment
from penstock.control import passwords
from router.model.resource_limits import Holder
from router.model.users import User

router = APIRouter(prefix="/api", tags=["users"])

SHA256 = "rabbit_password_hashing_sha256"
PASSWORD_MOST = 65536


class Wanted(BaseModel):
    """A user as a client wishes it: with a password, a hash of one, or neither, for one that logs in otherwise."""

    model_config = ConfigDict(extra="ignore")

    password: str | None = Field(default=None, max_length=PASSWORD_MOST)
    password_hash: str | None = Field(default=None, max_length=1000)
    hashing_algorithm: str = SHA256
    tags: str | list[str]


class Names(BaseModel):
    """Users to delete at once."""

    model_config = ConfigDict(extra="ignore")

    users: list[str]


@router.get("/users")
async def all_users(caller: Called, wanted: Listed) -> Response:
    """The users of the node."""
    caller.must_administer()
    return listed([facts(caller, user) for user in _by_name(caller)], wanted)


@router.get("/users/without-permissions")
@router.get("/users/without-permissions/")
async def without_permissions(caller: Called, wanted: Listed) -> Response:
    """The users that may open no vhost."""
    caller.must_administer()
    users = caller.broker.topology.users
    with_some = {permission.user for permission in users.permissions()}
    return listed([facts(caller, user) for user in _by_name(caller) if user.name not in with_some], wanted)


@router.post("/users/bulk-delete")
async def delete_all(caller: Called, names: Names) -> Response:
    """Delete users; those that do not exist are passed over."""
    caller.must_administer()
    for name in names.users:
        if caller.broker.topology.users.user(name) is not None:
            await caller.administer("user_delete", name=name)
    return nothing()


@router.get("/users/{name}")
async def one_user(caller: Called, name: Segment) -> Response:
    """A user."""
    caller.must_administer()
    user = caller.broker.topology.users.user(name)
    if user is None:
        raise not_found()
    return answer(facts(caller, user))


@router.put("/users/{name}")
async def put(caller: Called, name: Segment, wanted: Wanted) -> Response:
    """Make a user, or replace its password and tags."""
    caller.must_administer()
    stored = await _stored(wanted)
    tags = wanted.tags.split(",") if isinstance(wanted.tags, str) else wanted.tags
    tags = [tag.strip() for tag in tags if tag.strip()]
    if caller.broker.topology.users.user(name) is None:
        await caller.administer("user_add", name=name, password_hash=stored, tags=tags)
        return nothing(201)
    await caller.administer("user_set", name=name, password_hash=stored, tags=tags)
    return nothing()


@router.delete("/users/{name}")
async def delete(caller: Called, name: Segment) -> Response:
    """Delete a user; its connections are closed."""
    caller.must_administer()
    await caller.administer("user_delete", name=name)
    return nothing()


async def _stored(wanted: Wanted) -> str:
    """Return the stored form of a wanted password."""
    if wanted.password_hash is not None:
        try:
            return passwords.from_rabbitmq(wanted.password_hash, wanted.hashing_algorithm)
        except ValueError as error:
            raise HttpError(400, str(error)) from None
    if wanted.password is None:
        return passwords.NONE
    if not wanted.password:
        raise HttpError(400, "the password is empty; a user without one logs in otherwise")
    try:
        return await run_in_threadpool(passwords.hashed, wanted.password)
    except UnicodeEncodeError:
        raise HttpError(400, "the password has characters in it that are not Unicode") from None


def facts(caller: Caller, user: User) -> Facts:
    """Return a user as RabbitMQ's management shows it."""
    encoded, algorithm = passwords.to_rabbitmq(user.password_hash)
    return {
        "name": user.name,
        "password_hash": encoded,
        "hashing_algorithm": algorithm,
        "tags": user.tags,
        "limits": dict(caller.broker.topology.limits.of(Holder("user", user.name))),
    }


def _by_name(caller: Caller) -> list[User]:
    return sorted(caller.broker.topology.users.all(), key=lambda user: user.name)
