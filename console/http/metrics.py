"""Metrics over HTTP, as RabbitMQ has them: of the node, of each queue, or chosen families of each queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from starlette.requests import Request
from starlette.responses import Response

from console.broker import Broker
from console.http.access import Called
from console.metrics.exposition import Chosen

open_router = APIRouter(tags=["metrics"])


@open_router.get("/metrics")
async def of_node(request: Request) -> Response:
    """Metrics of the node."""
    return await _scraped(request, Chosen.NODE)


@open_router.get("/metrics/per-object")
async def per_queue(request: Request) -> Response:
    """Metrics of the node and each of its queues."""
    return await _scraped(request, Chosen.ALL)


@open_router.get("/metrics/detailed")
async def detailed(
    request: Request,
    vhost: Annotated[list[str] | None, Query()] = None,
    family: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Metrics of each queue, of all vhosts or chosen ones, if a family of RabbitMQ's that concerns queues is chosen;
    else those of the node.
    """
    queues = any(name.startswith("queue") for name in family or ())
    return await _scraped(request, Chosen.QUEUES if queues else Chosen.NODE, vhost)


async def monitors(caller: Called) -> None:
    """Metrics concern all vhosts."""
    caller.must_monitor()


router = APIRouter(dependencies=[Depends(monitors)])
router.include_router(open_router)


async def _scraped(request: Request, chosen: Chosen, vhosts: list[str] | None = None) -> Response:
    broker: Broker = request.app.state.broker
    openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
    of = None if vhosts is None else tuple(sorted(set(vhosts)))
    text = await broker.scraping.text((chosen, of, openmetrics))
    return Response(text, media_type=OPENMETRICS if openmetrics else CONTENT_TYPE_LATEST)
