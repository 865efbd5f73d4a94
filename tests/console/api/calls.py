"""Requests to the HTTP API of a running node, by chosen users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pika
import requests

from ops.claim import Pointer
from penstock.control import passwords
from penstock.node.node import Node
from tests.broker import Broker

SECONDS = 60.0
LIMITED = "limited"
"""A user with all rights to what begins with "mine.", and none to anything else."""


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: Any
    headers: Any


class Api:
    """The API of a node, for one user, whose password is its name."""

    def __init__(self, url: str, user: str = "guest") -> None:
        self.url = url
        self.user = user

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request; the path begins behind /api."""
        who = {} if "cookies" in options else {"auth": (self.user, self.user)}
        sent = requests.request(method, self.url + path, json=body, timeout=SECONDS, **who, **options)
        return Answer(sent.status_code, sent.json() if sent.content else None, sent.headers)

    def of(self, user: str) -> Api:
        """Return the API for another user."""
        return Api(self.url, user)


class Served(NamedTuple):
    """A running node, and its API."""

    broker: Broker
    api: Api

    @property
    def port(self) -> int:
        """The port of the API."""
        return int(self.api.url.split(":")[2].partition("/")[0])

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """Open a channel of pika."""
        host, port = self.broker.address.host, self.broker.address.port
        with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
            yield connection.channel()


@contextmanager
def served(directory: Path) -> Iterator[Served]:
    """Run a node with its HTTP interface, and the limited user."""
    with Broker(directory, "http.port=0", "http.metrics_port=0", acceptors=2, shards=2) as broker:
        pointer = Pointer.load(directory / "data")
        assert pointer
        host, port = Node.load(pointer.runtime).http["api"]
        broker.call("user_add", name=LIMITED, password_hash=passwords.hashed(LIMITED), tags=["management"])
        rights = dict.fromkeys(("configure", "write", "read"), r"^mine\.")
        broker.call("permission_set", user=LIMITED, vhost="/", **rights)
        yield Served(broker, Api(f"http://{host}:{port}/api"))


def path(*names: str) -> str:
    """Return the path of something in the vhost "/", or below."""
    kind, *rest = names
    return "/".join([f"/{kind}/%2F", *(quote(name, safe="") for name in rest)])
