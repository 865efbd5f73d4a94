"""The router's client in acceptors and shards: sends requests, follows changes, survives restarts of the router.

`Follower` has the logic of requests, answers and changes; `RouterClient` gives it sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from penstock import bus
from penstock.bus.endpoint import Endpoint, open_socket, subscribe
from penstock.bus.router_messages import Published, RouterReply, RouterRequest
from penstock.node import collector
from penstock.node.logs import get_logger
from penstock.node.node import Node

log = get_logger()

Done = Callable[[Any, list[Any] | None], None]


class Follower:
    """Requests to the router and the stream of topology changes. `send` sends a request, as one frame.

    `load(version, changes)` gets a snapshot: at first, and whenever more was missed than the router still has as
    separate changes; `apply(version, changes)` gets every change published after it, in order.
    """

    def __init__(
        self,
        load: Callable[[int, list[Any]], None],
        apply: Callable[[int, list[Any]], None],
        send: Callable[[bytes], None],
    ) -> None:
        self.load = load
        self.apply = apply
        self.send = send
        self.version = -1
        self.early: list[tuple[int, list[Any] | None]] = []
        self.last_request = 0
        self.last_snapshot = 0
        self.pending: dict[int, tuple[bytes, Done]] = {}

    def request(self, name: str, arguments: dict[str, Any], done: Done) -> None:
        """Send a request; `done(result, error)` is called with the answer, even if the router restarts meanwhile."""
        self.last_request += 1
        frame = bus.pack(RouterRequest(self.last_request, name, arguments))
        self.pending[self.last_request] = (frame, done)
        self.send(frame)

    @property
    def loading(self) -> bool:
        """Whether a snapshot is awaited."""
        return self.last_snapshot in self.pending

    def router_started(self) -> None:
        """Resend all requests and ask for a snapshot: a new router knows no requests of the old one, and changes that
        the old one published may have been missed.

        A snapshot of the old router may still arrive; it lacks changes published after it.
        """
        self.pending.pop(self.last_snapshot, None)
        for frame, _ in list(self.pending.values()):
            self.send(frame)
        self.ask_for_snapshot()

    def ask_for_snapshot(self) -> None:
        """Request the changes missed since `version`, or a snapshot, unless one is awaited."""
        if not self.loading:
            self.request("snapshot", {"have": self.version}, lambda result, _: self.on_snapshot(result))
            self.last_snapshot = self.last_request

    def on_reply(self, frame: bytes) -> None:
        """Pass an answer to its request's callback."""
        with collector.paused():  # a snapshot may be the whole topology
            self._on_reply(frame)

    def _on_reply(self, frame: bytes) -> None:
        reply = RouterReply(*bus.unpack(frame))
        _, done = self.pending.pop(reply.number, (b"", None))
        if done is None:
            return
        if isinstance(reply.result, dict) and "changes" in reply.result:
            reply.result["version"] = reply.version
        done(reply.result, reply.error)

    def on_snapshot(self, snapshot: dict[str, Any]) -> None:
        """Load a snapshot or apply the missed changes, then apply the changes that arrived early."""
        early, self.early = self.early, []
        for frame in snapshot.get("turns", ()):
            self.on_change(frame)
        if "changes" in snapshot and snapshot["version"] >= self.version:
            self.version = snapshot["version"]
            self.load(self.version, snapshot["changes"])
        for version, changes in early:
            self.receive(version, changes)

    def on_change(self, frame: bytes) -> None:
        """Apply a published change."""
        with collector.paused():
            self.receive(*Published(*bus.unpack(frame)))

    def receive(self, version: int, changes: list[Any] | None) -> None:
        """Apply the changes that lead to a version. None: the router is at that version, and the changes to it were
        published before.
        """
        if self.loading:
            self.early.append((version, changes))
        elif version == self.version + 1 and changes is not None:
            self.version = version
            self.apply(version, changes)
        elif version > self.version:
            log.warning("topology changes missed", have=self.version, got=version)
            self.early.append((version, changes))
            self.ask_for_snapshot()


class RouterClient(Follower):
    """A follower with sockets to the router."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: zmq.Context[Any],
        node: Node,
        identity: str,
        load: Callable[[int, list[Any]], None],
        apply: Callable[[int, list[Any]], None],
    ) -> None:
        requests = open_socket(context, zmq.DEALER)
        requests.setsockopt(zmq.IDENTITY, identity.encode())
        requests.connect(node.router_requests)
        super().__init__(load, apply, lambda frame: self.requests.send([frame]))
        self.changes = subscribe(loop, context, node.router_changes, lambda frames: self.on_change(frames[0]))
        self.requests = Endpoint(loop, requests, lambda frames: self.on_reply(frames[0]))
        self.ask_for_snapshot()

    def on_snapshot(self, snapshot: dict[str, Any]) -> None:
        first = self.version < 0
        super().on_snapshot(snapshot)
        if first:
            collector.keep()

    def close(self) -> None:
        self.changes.close()
        self.requests.close()
