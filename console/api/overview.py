"""The node at a glance, and what it says of itself as a cluster of one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from console.api.counted import churn, sums
from console.api.samples import Sampled
from console.api.serving import contexts, listeners
from console.api.totals import of_node, of_queues, seen_by
from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.caller import Caller
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, chosen, listed
from console.http.segments import Segment
from penstock import __version__
from router.model.records import DELAYED_MESSAGE

router = APIRouter(prefix="/api", tags=["overview"])

COMPATIBLE = "3.10.8"
"""The release of RabbitMQ whose interface this is: clients choose by it how they ask."""

EXCHANGE_TYPES = {
    "direct": "by the routing key",
    "fanout": "to all destinations",
    "headers": "by headers",
    "topic": "by patterns of routing keys",
    "x-consistent-hash": "to one destination, chosen by a hash",
    DELAYED_MESSAGE: "by another type, after a delay",
}


@router.get("/overview")
async def overview(caller: Called, spans: Sampled, wanted: Listed) -> Response:
    """The node at a glance: versions, numbers of objects and messages, rates, listeners."""
    broker = caller.broker
    gauges = seen_by(caller)
    counts = await sums(broker)
    found = of_node(broker, gauges, spans, counts) if caller.monitors else of_queues(broker, gauges)
    facts: Facts = {
        "management_version": COMPATIBLE,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600], "basic": [600], "detailed": [600]},
        "exchange_types": exchange_types(),
        "product_version": __version__,
        "product_name": "penstock",
        "rabbitmq_version": COMPATIBLE,
        "cluster_name": broker.name,
        "erlang_version": "",
        "erlang_full_version": "",
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": found.pop("message_stats"),
        "churn_rates": churn(broker, counts),
        "queue_totals": found,
        "object_totals": await _objects(caller, sum(gauge.consumers for gauge in gauges)),
        "statistics_db_event_queue": 0,
        "node": broker.name,
    }
    if caller.monitors:
        facts |= {"listeners": listeners(broker.node), "contexts": contexts(broker.node)}
    return answer(chosen(facts, wanted.paths))


async def _objects(caller: Caller, consumers: int) -> dict[str, int]:
    """Return the numbers of objects that a user sees; of connections and channels its own, unless it monitors."""
    broker = caller.broker
    topology, vhosts = broker.topology, caller.vhosts()
    if caller.monitors:
        counters = [broker.gauges.counters_read("acceptor", index) for index in range(broker.gauges.acceptors)]
        connections = sum(each.connections for each in counters)
        channels = sum(each.channels for each in counters)
    else:
        own = [each for each in await broker.ask_acceptors("connections") if each["user"] == caller.user]
        connections, channels = len(own), sum(each["channels"] for each in own)
    return {
        "channels": channels,
        "connections": connections,
        "consumers": consumers,
        "exchanges": sum(len(topology.exchanges_in(vhost)) for vhost in vhosts),
        "queues": sum(len(topology.queues_in(vhost)) for vhost in vhosts),
    }


def exchange_types() -> list[Facts]:
    """Return the types of exchanges."""
    return [
        {"name": name, "description": f"messages go {how}", "enabled": True} for name, how in EXCHANGE_TYPES.items()
    ]


@router.get("/cluster-name")
async def cluster_name(caller: Called) -> Response:
    """The name of the cluster: that of the node."""
    return answer({"name": caller.broker.name})


@router.put("/cluster-name")
async def rename_cluster(caller: Called) -> Response:
    """The name cannot be changed."""
    caller.must_administer()
    raise HttpError(400, "a node is its own cluster, whose name cannot be changed")


@router.get("/extensions")
async def extensions(_caller: Called) -> Response:
    """The extensions of the console; none."""
    return answer([])


@router.get("/auth")
async def auth() -> Response:
    """How users of the console log in: with a name and a password."""
    return answer({"enable_uaa": False, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": False})


@router.get("/auth/attempts/{name}")
async def attempts(caller: Called, name: Segment) -> Response:
    """Counts of logins; nothing counts them."""
    caller.must_monitor()
    if name != caller.broker.name:
        raise not_found()
    return answer([])


@router.get("/feature-flags")
@router.get("/deprecated-features")
@router.get("/deprecated-features/used")
async def features(caller: Called, wanted: Listed) -> Response:
    """The features that a cluster switches on step by step; none."""
    caller.must_monitor()
    none: list[dict[str, Any]] = []
    return listed(none, wanted)


@router.put("/feature-flags/{name}/enable")
async def enable_feature(caller: Called, name: str) -> Response:
    """No feature is switched on."""
    caller.must_administer()
    raise HttpError(400, f"there is no feature flag '{name}'")


@router.post("/rebalance/queues")
async def rebalance(caller: Called) -> Response:
    """Queues are moved by plans."""
    caller.must_administer()
    raise HttpError(400, "queues have no leaders here; `penstock rebalance` moves them between shards")
