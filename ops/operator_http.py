"""Requests to the HTTP interface of a running node over its Unix socket, as its operator."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import orjson

from ops.administration.node import running
from ops.errors import CommandError

SECONDS = 60.0
"""The longest that a node may take to answer, or a stream to say that it goes on."""
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


@contextmanager
def answered(data: Path | None, method: str, path: str, body: bytes | None = None) -> Iterator[HTTPResponse]:
    """Yield the answer to a request, to be read. CommandError if the node does not run, does not answer, or refuses."""
    node, directory = running(data)
    if not node.http:
        raise CommandError(f"the node on {directory} has no HTTP interface (http.enabled)")
    connection = UnixConnection(node.http_socket)
    try:
        connection.request(method, path, body, {"content-type": JSON})
        answer = connection.getresponse()
        if answer.status >= 400:
            raise CommandError(_reason(answer))
        yield answer
    except (FileNotFoundError, ConnectionRefusedError):
        raise CommandError(f"the node on {directory} is starting or stopping; try again") from None
    except BrokenPipeError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError(f"the node on {directory} does not answer: {error}") from None
    finally:
        connection.close()


def get(data: Path | None, path: str) -> Any:
    """Return the JSON at a path. CommandError as `answered`."""
    with answered(data, "GET", path) as answer:
        return orjson.loads(answer.read())


def _reason(answer: HTTPResponse) -> str:
    """Return the reason for an error, in one line."""
    try:
        found = orjson.loads(answer.read())
    except orjson.JSONDecodeError:
        found = None
    reason = found.get("reason") if isinstance(found, dict) else None
    return f"{answer.status} {answer.reason}" + (f": {reason}" if reason not in (None, answer.reason) else "")
