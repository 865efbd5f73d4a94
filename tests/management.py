"""A client of the management API, RabbitMQ's or a node's."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple, Self

import requests

from ops.claim import Pointer
from penstock.node.node import Node

GUEST = "guest"
PASSWORD = "secret-of-all"
TIMEOUT = 30
RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}


class Api(NamedTuple):
    """The management API of a broker on this machine."""

    port: int

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Return that of the node that runs in a test's directory."""
        pointer = Pointer.load(directory / "data")
        assert pointer
        return cls(Node.load(pointer.runtime).http["api"][1])

    def call(self, method: str, path: str, body: Any = None, user: str = GUEST, **headers: str) -> requests.Response:
        """Send a request; `path` begins after /api/. Users other than guest have the password of tests."""
        login = base64.b64encode(f"{user}:{GUEST if user == GUEST else PASSWORD}".encode()).decode()
        return requests.request(
            method, f"http://127.0.0.1:{self.port}/api/{path}", json=body, timeout=TIMEOUT,
            headers={"Authorization": f"Basic {login}", **headers},
        )  # fmt: skip

    def get(self, path: str, user: str = GUEST) -> Any:
        """Return the body of an answer, which has to be 200."""
        answer = self.call("GET", path, user=user)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def status(self, method: str, path: str, body: Any = None, user: str = GUEST) -> int:
        """Send a request and return the status of its answer."""
        return self.call(method, path, body, user).status_code

    def put(self, path: str, body: Any = None) -> None:
        """Make or change something, which has to succeed."""
        answer = self.call("PUT", path, body)
        assert answer.status_code in (201, 204), (path, answer.status_code, answer.text)

    def make_user(self, name: str, tags: str, *vhosts: str) -> None:
        """Make a user with all rights in some vhosts."""
        self.put(f"users/{name}", {"password": PASSWORD, "tags": tags})
        for vhost in vhosts:
            self.put(f"permissions/{vhost}/{name}", RIGHTS)
