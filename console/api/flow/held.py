"""Held producers, their causes, and the consumers behind those."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fastapi import APIRouter
from starlette.responses import Response

from console.api.situations import consumers_of, rates_of, reached
from console.broker import Broker, Facts
from console.flow.chain import explained, queues_of
from console.flow.graph import MOST, graph
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import HttpError
from console.http.listing import Listed, listed
from console.http.segments import Segment

router = APIRouter(prefix="/api/flow", tags=["flow"])

RATES = ("published_per_second", "drained_per_second", "resumes_in")


@router.get("/held")
async def held(caller: Called, wanted: Listed) -> Response:
    """The held channels, those held for the longest first, with their causes."""
    channels = [each for each in await caller.broker.held() if caller.sees(each["vhost"])]
    return listed(with_rates(caller.broker, channels), wanted)


@router.get("/why/{connection}")
async def why(caller: Called, connection: Segment) -> Response:
    """The chain of causes behind a held connection, down to the consumers that make no room."""
    situation = await reached(caller.broker, connection)
    if not any(each["connection"] == connection and caller.sees(each["vhost"]) for each in situation.held):
        raise HttpError(404, f"connection {connection} is not held")
    return answer({"lines": [{"depth": depth, "text": text} for depth, text in explained(situation, connection)]})


@router.get("/graph")
async def picture(caller: Called) -> Response:
    """Producers, exchanges, queues and consumers as a graph, with what is saturated lit (`console.flow.graph`)."""
    broker = caller.broker
    publishing = [each for each in await broker.ask_acceptors("publishing") if caller.sees(each["vhost"])]
    channels = [each for each in await broker.held() if caller.sees(each["vhost"])]
    ids = {id for each in publishing for route in each["routes"] for id in route["queues"]}
    gauges = {id: gauge for id in ids if (gauge := broker.gauge(id)) is not None}
    consumers = {id: await consumers_of(broker, cause) for id, cause in [*queues_of(channels).items()][:MOST]}
    return answer({"now": round(time.time() * 1000), **graph(publishing, channels, gauges, consumers).facts()})


def with_rates(broker: Broker, channels: Iterable[Facts]) -> list[Facts]:
    """Return held channels whose causes say how fast the queue drains, and when it resumes."""
    now = time.time()
    found = []
    for channel in channels:
        causes = []
        for cause in channel["causes"]:
            more: Facts = {}
            if cause["kind"] == "queue":
                rates = rates_of(broker, cause["id"]) or {}
                more = {name: rates.get(name) for name in RATES} | (broker.marks(cause["id"]) or {})
            elif cause.get("until") is not None:
                more = {"resumes_in": round(max(cause["until"] - now, 0.0), 1)}
            causes.append({**cause, **more})
        found.append({**channel, "causes": causes})
    return found
