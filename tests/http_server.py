"""An HTTP server of a test, in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

POLL_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    """Answers requests by `take`, and writes nothing to stderr."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.take(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self.received(self.rfile.read(int(self.headers["Content-Length"])))

    def received(self, body: bytes) -> None:
        """A request with a body has come: answer it."""
        self.take(body.decode())

    def take(self, form: str) -> None:
        """A request has come, with a form in its query or its body: answer it."""
        raise AssertionError("a handler takes requests")

    def answer(self, status: int, body: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """Serve requests on this machine, and yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
