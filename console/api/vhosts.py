"""Virtual hosts."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from console.api.totals import of_queues
from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.errors import HttpError
from console.http.listing import Listed, chosen, listed
from console.http.segments import Segment
from penstock.memory.gauges import QueueGauge

router = APIRouter(prefix="/api", tags=["vhosts"])

KIND = "classic"
EVERYTHING = ".*"


class Wanted(BaseModel):
    """A vhost as clients wish it. Without a description, or tags, it keeps those that it has."""

    model_config = ConfigDict(extra="ignore")

    description: str | None = None
    tags: str | list[str] | None = None
    tracing: bool = False
    default_queue_type: str = KIND


@router.get("/vhosts")
async def all_vhosts(caller: Called, wanted: Listed) -> Response:
    """The vhosts that the user sees."""
    found: dict[str, list[QueueGauge]] = {vhost: [] for vhost in caller.vhosts()}
    for gauge in caller.broker.sampler.latest():
        if gauge.vhost in found:
            found[gauge.vhost].append(gauge)
    return listed([facts(caller.broker, vhost, gauges) for vhost, gauges in found.items()], wanted)


@router.get("/vhosts/{name}")
async def one_vhost(caller: Called, name: Segment, wanted: Listed) -> Response:
    """A vhost."""
    caller.must_see(name)
    gauges = [gauge for gauge in caller.broker.sampler.latest() if gauge.vhost == name]
    return answer(chosen(facts(caller.broker, name, gauges), wanted.paths))


def facts(broker: Broker, vhost: str, gauges: list[QueueGauge]) -> Facts:
    """Return a vhost, with the messages of its queues, as RabbitMQ's management shows it."""
    found = broker.topology.vhost_metadata.get(vhost)
    metadata: Facts = {
        "description": "" if found is None else found.description,
        "tags": [] if found is None else found.tags,
    }
    return {
        "name": vhost,
        **metadata,
        "default_queue_type": KIND,
        "metadata": metadata,
        "tracing": False,
        "cluster_state": {broker.name: "running"},
        **of_queues(broker, gauges),
    }


@router.put("/vhosts/{name}")
async def make(caller: Called, name: Segment, wanted: Wanted | None = None) -> Response:
    """Make a vhost. As in RabbitMQ, the user that makes it may do everything in it."""
    caller.must_administer()
    if wanted is not None and wanted.tracing:
        raise HttpError(400, "messages cannot be traced")
    if wanted is not None and wanted.default_queue_type not in (KIND, "undefined"):
        raise HttpError(400, f"the default type of queues is {KIND}")
    new = await caller.administer("vhost_add", name=name)
    if wanted is not None and (wanted.description is not None or wanted.tags is not None):
        await caller.administer("vhost_describe", name=name, description=wanted.description, tags=_tags(wanted.tags))
    if new and caller.internal and caller.broker.topology.users.user(caller.user) is not None:
        await caller.administer(
            "permission_set", user=caller.user, vhost=name, configure=EVERYTHING, write=EVERYTHING, read=EVERYTHING
        )
    return nothing(201 if new else 204)


def _tags(wanted: str | list[str] | None) -> list[str] | None:
    """Return tags as a list; a text has them between commas."""
    tags = wanted.split(",") if isinstance(wanted, str) else wanted
    return None if tags is None else [tag.strip() for tag in tags if tag.strip()]


@router.delete("/vhosts/{name}")
async def delete(caller: Called, name: Segment) -> Response:
    """Delete a vhost with all that is in it; its connections are closed."""
    caller.must_administer()
    await caller.administer("vhost_delete", name=name)
    return nothing()


@router.post("/vhosts/{name}/start/{_node}")
async def start(caller: Called, name: Segment, _node: str) -> Response:
    """Start a vhost: all of them always run."""
    caller.must_administer()
    caller.must_see(name)
    return nothing()
