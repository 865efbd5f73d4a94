"""`penstock api`: requests to the HTTP interface of a node, as its operator."""

from __future__ import annotations

import sys
from http.client import HTTPResponse
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ops.errors import CommandError
from ops.naming import Data
from ops.operator_http import JSON, answered

PREFIX = "/api/"
PART = 1 << 16


def api(
    path: Annotated[str, typer.Argument(metavar="PATH", help="path, below /api/ unless it begins with a slash")],
    method: Annotated[
        str | None,
        typer.Option("--method", "-X", metavar="METHOD", help="by default GET, or POST if there is a body"),
    ] = None,
    body: Annotated[
        str | None,
        typer.Option("--body", "-b", metavar="JSON", help="body of the request; @FILE reads a file, @- standard input"),
    ] = None,
    data: Data = None,
) -> None:
    """Send the node a request to its HTTP interface, with all rights and without a login; print the answer.

    Streams are printed as they come. GET openapi.json describes all paths.

    Example: penstock api queues/%2F/orders -X PUT --body '{"arguments": {"x-overflow": "flow"}}'
    """
    content = None if body is None else _content(body)
    verb = method or ("GET" if content is None else "POST")
    with answered(data, verb, path if path.startswith("/") else PREFIX + path, content) as answer:
        _print(answer)


def _content(body: str) -> bytes:
    if not body.startswith("@"):
        return body.encode("utf-8", "surrogateescape")
    name = body[1:]
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from None


def _print(answer: HTTPResponse) -> None:
    """Print an answer: JSON as other commands print it, other text as it is, and as it comes."""
    if answer.headers.get_content_type() == JSON:
        content = answer.read()
        if content:
            print(orjson.dumps(orjson.loads(content), option=orjson.OPT_INDENT_2).decode())
        return
    while part := answer.read1(PART):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
