"""Held producers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.http.access import Called
from console.http.listing import Listed, listed

router = APIRouter(prefix="/api/flow", tags=["flow"])


@router.get("/held")
async def held(caller: Called, wanted: Listed) -> Response:
    """The held channels, those held for the longest first, with their causes."""
    return listed([each for each in await caller.broker.held() if caller.sees(each["vhost"])], wanted)
