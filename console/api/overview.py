"""The overview of the node."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.http.access import Called
from console.http.answers import answer
from penstock import __version__

router = APIRouter(prefix="/api", tags=["overview"])


@router.get("/overview")
async def overview(caller: Called) -> Response:
    """The node at a glance."""
    broker = caller.broker
    return answer(
        {"management_version": __version__, "product_name": "penstock", "queues": len(broker.topology.queues())}
    )
