"""Limits: what governs a queue, from where, and the producers that another policy would stop."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from console.api.flow.watching import publish_rates
from console.flow.trial import would_stop
from console.http.access import Called
from console.http.answers import answer
from console.http.segments import Segment

router = APIRouter(prefix="/api/flow/limits", tags=["flow"])


class Trial(BaseModel):
    """A policy that is tried, not set; `vhost` is "" for one of the node."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    vhost: str
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = Field(default="all", alias="apply-to")
    operator: bool = False


@router.get("/{vhost}/{queue}")
async def limits(caller: Called, vhost: Segment, queue: Segment) -> Response:
    """Every setting of a queue's flow control with its source, the limits that it shares, the bindings to it."""
    caller.must_see(vhost)
    return answer(await caller.broker.administer("flow_explain", vhost=vhost, name=queue))


@router.post("/try")
async def try_policy(caller: Called, wanted: Trial) -> Response:
    """The effect that a policy would have now: {reached (marks and rates), stopped (channels), ungranted (texts),
    queues}.
    """
    if wanted.vhost:
        caller.must_make_policies(wanted.vhost)
    else:
        caller.must_administer()
    broker = caller.broker
    trial = await broker.administer("policy_try", **wanted.model_dump())
    publishes = await publish_rates(broker) if trial["rates"] else []
    reached, stopped, ungranted = would_stop(
        trial, await broker.ask_acceptors("publishing"), publishes, broker.gauges
    )  # fmt: skip
    queues = [{"vhost": each["vhost"], "name": each["name"]} for each in trial["queues"]]
    return answer({"reached": reached, "stopped": stopped, "ungranted": ungranted, "queues": queues})
