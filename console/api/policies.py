"""Policies and operator policies of vhosts. Those of the node, which RabbitMQ has not, are in the definitions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.listing import Listed, Listing, listed
from console.http.segments import Segment
from router.model.records import Policy

router = APIRouter(prefix="/api", tags=["policies"])


class Wanted(BaseModel):
    """A policy as a client wishes it."""

    model_config = ConfigDict(extra="ignore")

    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = Field(default="all", alias="apply-to")


@router.get("/policies")
async def all_policies(caller: Called, wanted: Listed) -> Response:
    """The policies of all vhosts that the user sees."""
    return _of_all(caller, wanted, operator=False)


@router.get("/policies/{vhost}")
async def policies(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The policies of a vhost."""
    return _of_vhost(caller, vhost, wanted, operator=False)


@router.get("/policies/{vhost}/{name}")
async def policy(caller: Called, vhost: Segment, name: Segment) -> Response:
    """A policy."""
    return _one(caller, vhost, name, operator=False)


@router.put("/policies/{vhost}/{name}")
async def put(caller: Called, vhost: Segment, name: Segment, wanted: Wanted) -> Response:
    """Make or replace a policy."""
    caller.must_make_policies(vhost)
    return await _put(caller, vhost, name, wanted, operator=False)


@router.delete("/policies/{vhost}/{name}")
async def delete(caller: Called, vhost: Segment, name: Segment) -> Response:
    """Delete a policy."""
    caller.must_make_policies(vhost)
    await caller.administer("policy_delete", vhost=vhost, operator=False, name=name)
    return nothing()


@router.get("/operator-policies")
async def all_operator_policies(caller: Called, wanted: Listed) -> Response:
    """The operator policies of all vhosts that the user sees."""
    return _of_all(caller, wanted, operator=True)


@router.get("/operator-policies/{vhost}")
async def operator_policies(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The operator policies of a vhost."""
    return _of_vhost(caller, vhost, wanted, operator=True)


@router.get("/operator-policies/{vhost}/{name}")
async def operator_policy(caller: Called, vhost: Segment, name: Segment) -> Response:
    """An operator policy."""
    return _one(caller, vhost, name, operator=True)


@router.put("/operator-policies/{vhost}/{name}")
async def put_operator_policy(caller: Called, vhost: Segment, name: Segment, wanted: Wanted) -> Response:
    """Make or replace an operator policy."""
    caller.must_administer()
    return await _put(caller, vhost, name, wanted, operator=True)


@router.delete("/operator-policies/{vhost}/{name}")
async def delete_operator_policy(caller: Called, vhost: Segment, name: Segment) -> Response:
    """Delete an operator policy."""
    caller.must_administer()
    await caller.administer("policy_delete", vhost=vhost, operator=True, name=name)
    return nothing()


async def _put(caller: Caller, vhost: str, name: str, wanted: Wanted, *, operator: bool) -> Response:
    if not caller.broker.topology.has_vhost(vhost):
        raise not_found()
    new = await caller.administer("policy_set", vhost=vhost, name=name, operator=operator, **wanted.model_dump())
    return nothing(201 if new else 204)


def _of_all(caller: Caller, wanted: Listing, *, operator: bool) -> Response:
    return listed(
        [facts(each) for vhost in caller.vhosts() for each in _sorted(caller, vhost, operator=operator)], wanted
    )


def _of_vhost(caller: Caller, vhost: str, wanted: Listing, *, operator: bool) -> Response:
    caller.must_see(vhost)
    return listed([facts(each) for each in _sorted(caller, vhost, operator=operator)], wanted)


def _one(caller: Caller, vhost: str, name: str, *, operator: bool) -> Response:
    caller.must_see(vhost)
    found = caller.broker.topology.policy(vhost, name, operator=operator)
    if found is None:
        raise not_found()
    return answer(facts(found))


def _sorted(caller: Caller, vhost: str, *, operator: bool) -> list[Policy]:
    return sorted(caller.broker.topology.policies(vhost, operator=operator), key=lambda policy: policy.name)


def facts(policy: Policy) -> Facts:
    """Return a policy as RabbitMQ's management shows it."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }
