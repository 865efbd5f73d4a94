"""Definitions: the topology, users and policies of the node, or of a vhost, as one document in RabbitMQ's format."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from console.api.overview import COMPATIBLE
from console.http.access import Called
from console.http.answers import answer, nothing
from console.http.caller import Caller
from console.http.errors import HttpError
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["definitions"])

OF_A_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")
"""The sections of a vhost's definitions, as in RabbitMQ: without the permissions of users that another node lacks."""


@router.get("/definitions")
async def definitions(caller: Called, download: str = "") -> Response:
    """The definitions of the node; with `download`, as a file of that name."""
    caller.must_administer()
    return await _exported(caller, None, download)


@router.get("/definitions/{vhost}")
async def definitions_of_vhost(caller: Called, vhost: Segment, download: str = "") -> Response:
    """The definitions of a vhost."""
    caller.must_administer()
    caller.must_see(vhost)
    return await _exported(caller, vhost, download)


@router.post("/definitions")
async def import_definitions(caller: Called, request: Request) -> Response:
    """Import definitions. If any of them is refused, none is imported."""
    caller.must_administer()
    return await _imported(caller, None, await _document(request))


@router.post("/definitions/{vhost}")
async def import_into_vhost(caller: Called, vhost: Segment, request: Request) -> Response:
    """Import definitions, all into one vhost."""
    caller.must_administer()
    caller.must_see(vhost)
    return await _imported(caller, vhost, await _document(request))


async def _exported(caller: Caller, vhost: str | None, download: str) -> Response:
    found = await caller.administer("definitions_export", vhost=vhost)
    if vhost is None:
        found = {**found, "rabbitmq_version": COMPATIBLE, "global_parameters": []}
    else:
        found = {name: found[name] for name in OF_A_VHOST}
    response = answer({"rabbit_version": COMPATIBLE, **found})
    if download:
        response.headers["content-disposition"] = f'attachment; filename="{_file_name(download)}"'
    return response


def _file_name(wanted: str) -> str:
    """Return a name fit for a header: without characters that are invisible, not ASCII, or end a quoted text."""
    return "".join(each for each in wanted if each.isascii() and each.isprintable() and each not in '"\\')


async def _imported(caller: Caller, vhost: str | None, document: dict[str, Any]) -> Response:
    found = await caller.administer(
        "definitions_import", definitions=document, vhost=vhost, sections=None, skip_refused=False
    )
    if found["refused"]:
        first, *more = found["refused"]
        raise HttpError(400, f"{first}, and {len(more)} more" if more else first)
    return nothing()


async def _document(request: Request) -> dict[str, Any]:
    """Return the document of a request. HttpError if there is none."""
    try:
        document = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(document, dict):
        raise HttpError(400, "these are no definitions: not a JSON object")
    return document
