"""`penstock api`: requests to the HTTP interface of a node over its Unix socket, as its operator."""

from __future__ import annotations

import socket
import sys
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ops.administration.node import running
from ops.errors import CommandError
from ops.naming import Data

PREFIX = "/api/"
SECONDS = 60.0
"""The longest that a node may take to answer, or a stream to say that it goes on."""
PART = 1 << 16
JSON = "application/json"


class UnixConnection(HTTPConnection):
    """A connection over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


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
    node, directory = running(data)
    if not node.http:
        raise CommandError(f"the node on {directory} has no HTTP interface (http.enabled)")
    content = None if body is None else _content(body)
    connection = UnixConnection(node.http_socket)
    try:
        connection.request(
            method or ("GET" if content is None else "POST"),
            path if path.startswith("/") else PREFIX + path,
            content,
            {"content-type": JSON},
        )
        answer = connection.getresponse()
        if answer.status >= 400:
            raise CommandError(_reason(answer))
        _print(answer)
    except (FileNotFoundError, ConnectionRefusedError):
        raise CommandError(f"the node on {directory} is starting or stopping; try again") from None
    except BrokenPipeError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError(f"the node on {directory} does not answer: {error}") from None
    finally:
        connection.close()


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


def _reason(answer: HTTPResponse) -> str:
    """Return the reason for an error, in one line."""
    try:
        found = orjson.loads(answer.read())
    except orjson.JSONDecodeError:
        found = None
    reason = found.get("reason") if isinstance(found, dict) else None
    return f"{answer.status} {answer.reason}" + (f": {reason}" if reason not in (None, answer.reason) else "")
