"""A service that decides on users over HTTP, as RabbitMQ's backend asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests import http_server

Fields = dict[str, str]


class Service:
    """Answers by `decide`, which the test may replace. `asked` has the paths and fields of all calls."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.asked: list[tuple[str, Fields]] = []
        self.decide: Callable[[str, Fields], str] = lambda path, fields: "allow"

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a node that asks this service alone."""
        paths = {f"{name}_path": f"{self.url}/{name}" for name in ("user", "vhost", "resource", "topic")}
        return {"auth": {"backends": ["http"], "http": {**paths, **more}}}

    def assignments(self) -> list[str]:
        """Return the settings of a node that asks this service alone."""
        paths = self.settings()["auth"]["http"]
        return ["auth.backends=http", *(f"auth.http.{name}={url}" for name, url in paths.items())]

    def paths(self) -> list[str]:
        """Return the paths of all calls, and forget these."""
        asked, self.asked = self.asked, []
        return [path for path, _ in asked]


@contextmanager
def serving() -> Iterator[Service]:
    """Serve a service at its `url`."""
    service = Service()

    class Answering(http_server.Handler):
        def take(self, form: str) -> None:
            fields = dict(parse_qsl(form, keep_blank_values=True, strict_parsing=True))
            path = urlsplit(self.path).path
            service.asked.append((path, fields))
            self.answer(service.status, service.decide(path, fields).encode())

    with http_server.serving(Answering) as service.url:
        yield service
