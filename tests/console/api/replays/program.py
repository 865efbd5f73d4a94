"""A program that calls the management API, as its requests are known: with its paths, headers and bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.console.http.node import GUEST, Answer, HttpBroker

NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


class Program:
    """A program with the headers of all its requests."""

    def __init__(self, node: HttpBroker, headers: Mapping[str, str], user: tuple[str, str] = GUEST) -> None:
        self.node = node
        self.headers = headers
        self.user = user

    def call(self, method: str, path: str, body: Any = None, *statuses: int, **headers: str) -> Answer:
        """Send a request, `path` behind /api/, and return its answer, whose status has to be one of `statuses`."""
        answer = self.node.request(method, f"/api/{path}", body, user=self.user, headers={**self.headers, **headers})
        assert answer.status in statuses, (method, path, answer.status, answer.body)
        return answer

    def read(self, path: str) -> Any:
        """Return what a GET is answered with."""
        return self.call("GET", path, None, 200).json

    def gone(self, path: str) -> None:
        """Check that something is not there, as programs recognize it."""
        assert self.call("GET", path, None, 404).json == NOT_FOUND
