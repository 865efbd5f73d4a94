"""Bindings. Every queue has an implied one, from the default exchange by its own name.

A binding has no name: paths name it by its properties key (`console.api.properties_key`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import APIRouter
from starlette.responses import Response

from console.api.properties_key import is_named, properties_key
from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.listing import Listed, Listing, listed
from console.http.segments import Segment
from router.model.delaying import is_delay_queue
from router.model.records import DEFAULT_EXCHANGE, Binding, Exchange, Kind, Queue
from router.model.topology import Topology

router = APIRouter(prefix="/api", tags=["bindings"])

DEFAULT_NAME = "amq.default"
"""The name of the default exchange in paths."""
KINDS: dict[str, Kind] = {"q": "queue", "e": "exchange"}


@router.get("/bindings")
async def all_bindings(caller: Called, wanted: Listed) -> Response:
    """The bindings in all vhosts that the user sees."""
    topology = caller.broker.topology
    return _listed((each for vhost in caller.vhosts() for each in in_vhost(topology, vhost)), wanted)


@router.get("/bindings/{vhost}")
async def bindings_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The bindings in a vhost."""
    caller.must_see(vhost)
    return _listed(in_vhost(caller.broker.topology, vhost), wanted)


@router.get("/bindings/{vhost}/e//{kind}/{destination}")
async def implied_bindings(caller: Called, vhost: Segment, kind: str, destination: Segment, wanted: Listed) -> Response:
    """The bindings between the default exchange, whose name is empty, and a queue."""
    return listed([facts(each) for each in between(caller, vhost, DEFAULT_EXCHANGE, kind, destination)], wanted)


@router.get("/bindings/{vhost}/e//{kind}/{destination}/{key}")
async def implied_binding(caller: Called, vhost: Segment, kind: str, destination: Segment, key: Segment) -> Response:
    """The binding of a queue to the default exchange."""
    return answer(facts(named(caller, vhost, DEFAULT_EXCHANGE, kind, destination, key)))


@router.get("/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def bindings_between(
    caller: Called, vhost: Segment, source: Segment, kind: str, destination: Segment, wanted: Listed
) -> Response:
    """The bindings between an exchange and a queue ("q") or another exchange ("e")."""
    return listed([facts(each) for each in between(caller, vhost, source, kind, destination)], wanted)


@router.get("/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}")
async def one_binding(
    caller: Called, vhost: Segment, source: Segment, kind: str, destination: Segment, key: Segment
) -> Response:
    """A binding, by its properties_key."""
    return answer(facts(named(caller, vhost, source, kind, destination, key)))


def _listed(bindings: Iterable[Binding], wanted: Listing) -> Response:
    rows = [{"binding": binding} for binding in bindings]
    return listed(rows, wanted, lambda shown: [facts(row["binding"]) for row in shown])


# Looking up


def between(caller: Caller, vhost: str, source: str, kind: str, destination: str) -> list[Binding]:
    """Return the bindings between an exchange and a destination, which a path names; none if one of them does not
    exist.
    """
    caller.must_see(vhost)
    topology = caller.broker.topology
    exchange = topology.exchange(vhost, DEFAULT_EXCHANGE if source == DEFAULT_NAME else source)
    if kind not in KINDS:
        raise not_found()
    if exchange is None:
        return []
    if exchange.name == DEFAULT_EXCHANGE:
        queue = topology.queue(vhost, destination) if kind == "q" else None
        return [] if queue is None else [*_implied([queue])]
    bindings = topology.bindings_to(vhost, KINDS[kind], destination)
    return ordered(each for each in bindings if each.source == exchange.name)


def named(caller: Caller, vhost: str, source: str, kind: str, destination: str, key: str) -> Binding:
    """Return the binding with a properties key. HttpError if there is none."""
    for binding in between(caller, vhost, source, kind, destination):
        if is_named(binding, key):
            return binding
    raise not_found()


def in_vhost(topology: Topology, vhost: str) -> Iterator[Binding]:
    """Return all bindings in a vhost, the implied ones first."""
    yield from from_exchange(topology, _default(topology, vhost))
    for exchange in sorted(topology.exchanges_in(vhost), key=lambda exchange: exchange.name):
        yield from ordered(topology.bindings_from(vhost, exchange.name))


def from_exchange(topology: Topology, exchange: Exchange) -> list[Binding]:
    """Return the bindings from an exchange; from the default one the implied ones."""
    if exchange.name != DEFAULT_EXCHANGE:
        return ordered(topology.bindings_from(exchange.vhost, exchange.name))
    return ordered(_implied(topology.queues_in(exchange.vhost)))


def of_queue(topology: Topology, queue: Queue) -> list[Binding]:
    """Return the bindings of a queue, the implied one first."""
    return [*_implied([queue]), *ordered(topology.bindings_to(queue.vhost, "queue", queue.name))]


def ordered(bindings: Iterable[Binding]) -> list[Binding]:
    """Return bindings in the order of their sources, destinations and keys."""
    return sorted(bindings, key=lambda each: (each.source, each.kind, each.destination, each.key, len(each.arguments)))


def _default(topology: Topology, vhost: str) -> Exchange:
    exchange = topology.exchange(vhost, DEFAULT_EXCHANGE)
    assert exchange is not None  # every vhost has it
    return exchange


def _implied(queues: Iterable[Queue]) -> Iterator[Binding]:
    for queue in queues:
        if not is_delay_queue(queue.name):
            yield Binding(queue.vhost, DEFAULT_EXCHANGE, "queue", queue.name, queue.name, {})


# As RabbitMQ's management shows them


def facts(binding: Binding) -> Facts:
    """Return a binding as RabbitMQ's management shows it."""
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": binding.kind,
        "routing_key": binding.key,
        "arguments": dict(binding.arguments),
        "properties_key": properties_key(binding),
    }
