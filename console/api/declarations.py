"""Queues, exchanges and bindings are declared and deleted, and queues purged, as a client of the user would do it."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from console.api.bodies import Invalid, body_of, boolean, table, text
from console.api.properties_key import is_named, properties_key
from console.http.access import Called
from console.http.answers import nothing
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.segments import Segment
from router.model.records import Binding, Kind

router = APIRouter(prefix="/api", tags=["declarations"])

DEFAULT_EXCHANGE = "amq.default"
"""The name of the default exchange in paths."""
KINDS: dict[str, Kind] = {"q": "queue", "e": "exchange"}
"""Kinds of destinations of a binding."""
SYNCHRONIZING = ("sync", "cancel_sync")
"""Actions on the mirrors of a queue; classic queues have none here, so there is nothing left to do."""


# Queues


@router.put("/queues/{vhost}/{name}")
async def declare_queue(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Declare a queue: 201 if it is new, 204 if an equal one exists."""
    body = await body_of(request)
    existed = await _queue_exists(caller, vhost, name)
    await caller.method(
        vhost, "queue_declare", queue=name, durable=boolean(body, "durable"), auto_delete=boolean(body, "auto_delete"),
        arguments=table(body, "arguments"),
    )  # fmt: skip
    return nothing(204 if existed else 201)


@router.delete("/queues/{vhost}/{name}")
async def delete_queue(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Delete a queue; with if-empty or if-unused only one without messages or consumers."""
    if not await _queue_exists(caller, vhost, name):
        raise not_found()
    await caller.method(
        vhost, "queue_delete", queue=name, if_empty=_asked(request, "if-empty"), if_unused=_asked(request, "if-unused")
    )
    return nothing()


@router.delete("/queues/{vhost}/{name}/contents")
async def purge_queue(caller: Called, vhost: Segment, name: Segment) -> Response:
    """Drop the ready messages of a queue."""
    if not await _queue_exists(caller, vhost, name):
        raise not_found()
    await caller.method(vhost, "queue_purge", queue=name)
    return nothing()


@router.post("/queues/{vhost}/{name}/actions")
async def act_on_queue(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Synchronize the mirrors of a queue, of which it has none, or cancel that."""
    caller.must_administer()
    body = await body_of(request, "action")
    if not await _queue_exists(caller, vhost, name):
        raise not_found()
    if body["action"] not in SYNCHRONIZING:
        raise Invalid("unknown", body["action"])
    return nothing()


# Exchanges


@router.put("/exchanges/{vhost}/{name}")
async def declare_exchange(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Declare an exchange: 201 if it is new, 204 if an equal one exists."""
    body = await body_of(request)
    existed = await _exchange_exists(caller, vhost, name)
    await caller.method(
        vhost, "exchange_declare", exchange=exchange_of(name), type=text(body, "type", "direct"),
        durable=boolean(body, "durable"), auto_delete=boolean(body, "auto_delete"), internal=boolean(body, "internal"),
        arguments=table(body, "arguments"),
    )  # fmt: skip
    return nothing(204 if existed else 201)


@router.delete("/exchanges/{vhost}/{name}")
async def delete_exchange(caller: Called, vhost: Segment, name: Segment, request: Request) -> Response:
    """Delete an exchange; with if-unused only one without bindings."""
    if not await _exchange_exists(caller, vhost, name):
        raise not_found()
    await caller.method(vhost, "exchange_delete", exchange=exchange_of(name), if_unused=_asked(request, "if-unused"))
    return nothing()


# Bindings


@router.post("/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def bind(
    caller: Called, vhost: Segment, source: Segment, kind: str, destination: Segment, request: Request
) -> Response:
    """Bind a queue (kind q) or an exchange (e) to an exchange; Location names the binding."""
    body = await body_of(request)
    binding = Binding(
        vhost, exchange_of(source), _kind(kind), destination, text(body, "routing_key"), table(body, "arguments")
    )
    await _change(caller, "bind", binding)
    response = nothing(201)
    response.headers["location"] = f"{quote(destination, safe='')}/{quote(properties_key(binding), safe='')}"
    return response


@router.delete("/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}")
async def unbind(
    caller: Called, vhost: Segment, source: Segment, kind: str, destination: Segment, key: Segment
) -> Response:
    """Remove a binding, which is named by its properties key."""
    caller.must_act_in(vhost)
    await caller.broker.caught_up()
    topology, exchange, target = caller.broker.topology, exchange_of(source), (_kind(kind), destination)
    if not exchange:  # the bindings to the default exchange are no records, and refused to everybody by the router
        found = [Binding(vhost, "", *target, destination, {})]
    elif topology.exchange(vhost, exchange) is None:
        found = []
    else:
        bound = (binding for binding in topology.bindings_from(vhost, exchange) if binding.target == target)
        found = [binding for binding in bound if is_named(binding, key)]
    if not found:
        raise not_found()
    await _change(caller, "unbind", found[0])
    return nothing()


def exchange_of(name: str) -> str:
    """Return the name of an exchange, from that in a path."""
    return "" if name == DEFAULT_EXCHANGE else name


async def _change(caller: Caller, change: str, binding: Binding) -> None:
    if binding.kind == "queue":
        ends = {"queue": binding.destination, "exchange": binding.source}
    else:
        ends = {"destination": exchange_of(binding.destination), "source": binding.source}
    await caller.method(
        binding.vhost, f"{binding.kind}_{change}", **ends, routing_key=binding.key, arguments=dict(binding.arguments)
    )


def _kind(letter: str) -> Kind:
    if letter not in KINDS:
        raise not_found()
    return KINDS[letter]


async def _queue_exists(caller: Caller, vhost: str, name: str) -> bool:
    caller.must_act_in(vhost)
    await caller.broker.caught_up()
    return caller.broker.topology.queue(vhost, name) is not None


async def _exchange_exists(caller: Caller, vhost: str, name: str) -> bool:
    """Whether there is an exchange; the default one is there, and refused to everybody by the router."""
    caller.must_act_in(vhost)
    await caller.broker.caught_up()
    return not exchange_of(name) or caller.broker.topology.exchange(vhost, name) is not None


def _asked(request: Request, parameter: str) -> bool:
    return request.query_params.get(parameter) == "true"
