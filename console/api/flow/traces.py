"""Traces of single messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from console.http.access import Called
from console.http.answers import answer
from console.tracing.reading import SpanReader, traces

router = APIRouter(prefix="/api", tags=["flow"])

TRACES_MOST = 1000
Last = Annotated[int, Query(ge=1, le=TRACES_MOST)]


@router.get("/traces")
async def latest(caller: Called, last: Last = 100) -> Response:
    """The latest traced messages, the newest first, with their spans (`console.tracing.reading`)."""
    caller.must_monitor()
    broker = caller.broker
    return answer(traces(await SpanReader(broker.node, broker.gauges).read())[:last])
