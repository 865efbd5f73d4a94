"""Exchanges."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from console.api.bindings import DEFAULT_NAME, from_exchange, ordered
from console.api.bindings import facts as binding_facts
from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.listing import Listed, chosen, listed
from console.http.segments import Segment
from router.model.records import DEFAULT_EXCHANGE, Exchange

router = APIRouter(prefix="/api", tags=["exchanges"])


@router.get("/exchanges")
async def all_exchanges(caller: Called, wanted: Listed) -> Response:
    """The exchanges of all vhosts that the user sees."""
    return await _of(caller, caller.vhosts(), wanted)


@router.get("/exchanges/{vhost}")
async def exchanges_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The exchanges of a vhost."""
    caller.must_see(vhost)
    return await _of(caller, [vhost], wanted)


@router.get("/exchanges/{vhost}/{name}")
async def one_exchange(caller: Called, vhost: Segment, name: Segment, wanted: Listed) -> Response:
    """An exchange."""
    exchange = seen(caller, vhost, name)
    await caller.broker.foreign.refresh()
    return answer(chosen({**facts(caller.broker, exchange), "incoming": [], "outgoing": []}, wanted.paths))


@router.get("/exchanges/{vhost}/{name}/bindings/{end}")
async def bindings(
    caller: Called, vhost: Segment, name: Segment, end: Literal["source", "destination"], wanted: Listed
) -> Response:
    """The bindings from an exchange (source), or to it (destination)."""
    exchange, topology = seen(caller, vhost, name), caller.broker.topology
    if end == "source":
        found = from_exchange(topology, exchange)
    else:
        found = ordered(topology.bindings_to(vhost, "exchange", exchange.name))
    return listed([binding_facts(each) for each in found], wanted)


def seen(caller: Caller, vhost: str, name: str) -> Exchange:
    """Return an exchange that the user sees, by its name in a path. HttpError if there is none."""
    caller.must_see(vhost)
    exchange = caller.broker.topology.exchange(vhost, DEFAULT_EXCHANGE if name == DEFAULT_NAME else name)
    if exchange is None:
        raise not_found()
    return exchange


def facts(broker: Broker, exchange: Exchange) -> Facts:
    """Return an exchange as RabbitMQ's management shows it."""
    found: Facts = {
        **{field: getattr(exchange, field) for field in ("vhost", "name", "type", "durable", "auto_delete")},
        "internal": exchange.internal,
        "arguments": dict(broker.foreign.all_of(exchange)),
        "user_who_performed_action": exchange.maker,
    }
    return {**found, "policy": exchange.policy} if exchange.policy is not None else found


async def _of(caller: Caller, vhosts: list[str], wanted: Listed) -> Response:
    broker = caller.broker
    await broker.foreign.refresh()
    found = (exchange for vhost in vhosts for exchange in broker.topology.exchanges_in(vhost))
    ranked = sorted(found, key=lambda exchange: (exchange.vhost, exchange.name))
    return listed([facts(broker, exchange) for exchange in ranked], wanted)
