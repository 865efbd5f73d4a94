"""A real node with HTTP on free ports, and requests to it as a user."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import urllib3

from ops.claim import Pointer
from penstock.node.node import Node
from tests.broker import Broker
from tests.raw import Address

FREE_PORTS = ("http.port=0", "http.metrics_port=0")
GUEST = ("guest", "guest")
SECONDS = 60.0
"""The longest that a test waits for an answer, on a busy machine."""


class Answer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class HttpBroker(Broker):
    """A broker whose HTTP interface is on. Requests wait until the console serves."""

    def __init__(self, directory: Path, *assignments: str, **options: Any) -> None:
        super().__init__(directory, *FREE_PORTS, *assignments, **options)

    def http(self, name: str = "api") -> Address:
        """Return where a port of the interface is served: "api" or "metrics"."""
        pointer = Pointer.load(self.directory / "data")
        assert pointer
        return Address(*Node.load(pointer.runtime).http[name])

    def request(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        user: tuple[str, str] | None = GUEST,
        headers: Mapping[str, str] | None = None,
        port: str = "api",
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        """Send a request as a user (None: nobody), with `content` as JSON (bytes: as they are); return the answer."""
        address = self.http(port)
        given = dict(headers or {})
        if user is not None:
            given |= urllib3.make_headers(basic_auth=":".join(user))
        body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
        if body is not None:
            given.setdefault("content-type", "application/json")
        place = {"host": address.host, "port": address.port, "timeout": SECONDS, "retries": False}
        plain = tls is None
        pool = urllib3.HTTPConnectionPool(**place) if plain else urllib3.HTTPSConnectionPool(**place, ssl_context=tls)
        with pool:
            found = pool.request(method, path, body=body, headers=given, redirect=False)
            return Answer(found.status, found.headers, found.data)

    def get(self, path: str, **how: Any) -> Answer:
        """Get a path."""
        return self.request("GET", path, **how)
