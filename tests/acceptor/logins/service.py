"""A service that decides on users over HTTP, as RabbitMQ's backend asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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

    def paths(self) -> list[str]:
        """Return the paths of all calls, and forget these."""
        asked, self.asked = self.asked, []
        return [path for path, _ in asked]


@contextmanager
def serving() -> Iterator[Service]:
    """Serve a service at its `url`."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def answer(self, form: str) -> None:
            fields = dict(parse_qsl(form, keep_blank_values=True, strict_parsing=True))
            path = urlsplit(self.path).path
            service.asked.append((path, fields))
            body = service.decide(path, fields).encode()
            self.send_response(service.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
