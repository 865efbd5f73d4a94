"""A stand-in for Docker's HTTP interface that runs nodes instead of containers.

Some suites start their broker as a container. They get a penstock for any image; `kill`, `start` and `rabbitmqctl
stop_app` act on it accordingly. Only the calls that those suites make are here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from tests.raw import Address

AMQP = "5672/tcp"


class Node(Protocol):
    """A node that is started in place of a container; tests.broker.Broker is one."""

    address: Address

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill_all(self) -> None: ...


class Containers:
    """Nodes by the id of their container. `start` makes a node in a directory."""

    def __init__(self, directory: Path, start: Callable[[Path], Node]) -> None:
        self._directory = directory
        self._start = start
        self._brokers: dict[str, Node | None] = {}
        """The node of each container; None until it is started."""
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def create(self) -> dict[str, Any]:
        """Create a container, without a node yet."""
        identity = f"node{len(self._brokers)}"
        self._brokers[identity] = None
        return {"Id": identity}

    def start(self, identity: str) -> None:
        """Start the node of a container."""
        broker = self._brokers[identity]
        if broker is None:
            directory = self._directory / identity
            directory.mkdir()
            self._brokers[identity] = self._start(directory)
        else:
            broker.start()
        self._running.add(identity)

    def stop(self, identity: str) -> None:
        """Stop the node of a container cleanly."""
        broker = self._brokers[identity]
        if broker is not None and identity in self._running:
            self._running.discard(identity)
            broker.stop()

    def kill(self, identity: str) -> None:
        """Kill the node of a container."""
        broker = self._brokers[identity]
        if broker is not None and identity in self._running:
            self._running.discard(identity)
            broker.kill_all()

    def inspect(self, identity: str) -> dict[str, Any]:
        """Return the ports of a container."""
        broker = self._brokers[identity]
        assert broker is not None, f"{identity} is not started"
        # No process listens on port 1: no node serves TLS.
        ports = {AMQP: broker.address.port, "5671/tcp": 1}
        return {"NetworkSettings": {"Ports": {name: [{"HostPort": str(port)}] for name, port in ports.items()}}}

    def execute(self, identity: str, command: list[str]) -> dict[str, Any]:
        """Carry out `rabbitmqctl stop_app` or `start_app` at once."""
        {"stop_app": self.stop, "start_app": self.start}[command[-1]](identity)
        return {"Id": identity}

    def stop_all(self) -> None:
        """Stop all nodes."""
        for identity in list(self._running):
            self.stop(identity)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return status and JSON answer to a request."""
        with self._lock:
            for verb, pattern, act in self._table():
                match = re.fullmatch(pattern, path)
                if verb == method and match:
                    return 200, act(match, body)
        return 404, {"message": f"{method} {path}"}

    def _table(self) -> list[tuple[str, str, Callable[[re.Match[str], dict[str, Any]], Any]]]:
        return [
            ("POST", r"/images/create\?.*", lambda *_: None),
            ("POST", r"/containers/create", lambda *_: self.create()),
            ("POST", r"/containers/(\w+)/start", lambda found, _: self.start(found[1])),
            ("POST", r"/containers/(\w+)/stop.*", lambda found, _: self.stop(found[1])),
            ("POST", r"/containers/(\w+)/kill", lambda found, _: self.kill(found[1])),
            ("DELETE", r"/containers/(\w+)", lambda found, _: self.kill(found[1])),
            ("GET", r"/containers/(\w+)/json", lambda found, _: self.inspect(found[1])),
            ("POST", r"/containers/(\w+)/exec", lambda found, body: self.execute(found[1], body["Cmd"])),
            ("POST", r"/exec/(\w+)/start", lambda *_: None),
            ("GET", r"/exec/(\w+)/json", lambda *_: {"Running": False, "ExitCode": 0}),
        ]


@contextmanager
def serve(containers: Containers) -> Iterator[str]:
    """Serve containers on a free port of 127.0.0.1; yield the value for DOCKER_HOST. Stop all nodes at the end."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            status, answer = containers.answer(self.command, self.path, body)
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = respond  # noqa: N815 - names the server module asks for

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: the suite's own output is enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        containers.stop_all()
