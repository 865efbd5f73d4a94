"""A real node with HTTP on free ports, requests to it as a user, and octets to it as nobody would send them."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import urllib3

from ops.claim import Pointer
from penstock.node.node import Node
from tests.broker import Broker
from tests.raw import Address
from tests.waiting import PATIENCE

FREE_PORTS = ("http.port=0", "http.metrics_port=0")
GUEST = ("guest", "guest")
SECONDS = 60.0
"""The longest that a test waits for an answer, on a busy machine."""

BASIC = b"authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
OVERVIEW = b"GET /api/overview HTTP/1.1\r\nhost: x\r\n" + BASIC + b"\r\n"


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

    @property
    def unix_socket(self) -> Path:
        """The operator's socket."""
        pointer = Pointer.load(self.directory / "data")
        assert pointer
        return Node.load(pointer.runtime).http_socket

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


def connected(node: HttpBroker, port: str = "api", receive_buffer: int = 0) -> socket.socket:
    """Return a connection to a port."""
    address = node.http(port)
    client = socket.socket(socket.AF_INET)
    if receive_buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(PATIENCE)
    client.connect(address)
    return client


def exchange(node: HttpBroker, sent: bytes, port: str = "api") -> bytes:
    """Send octets; return all that comes until the connection ends."""
    with connected(node, port) as client:
        try:
            client.sendall(sent)
        except OSError:  # it has hung up
            return b""
        return drained(client)


def drained(client: socket.socket) -> bytes:
    """Return all that comes until a connection ends."""
    found = b""
    try:
        while part := client.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def status(answer: bytes) -> int:
    """Return the status of an answer; 0 for none."""
    return int(answer.split(b" ", 2)[1]) if answer else 0
