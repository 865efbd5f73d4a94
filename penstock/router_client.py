"""The router as acceptors and shards see it: ask it, follow its changes, outlive its restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from penstock import bus
from penstock.endpoint import Endpoint, open_socket
from penstock.logs import get_logger
from penstock.node import Node

log = get_logger()

Done = Callable[[Any, list[Any] | None], None]


class RouterClient:
    """Requests to the router and the stream of topology changes.

    `load(version, changes)` gets a snapshot, first of all and whenever changes may have been missed;
    `apply(version, changes)` gets every change published after it, in order.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: zmq.Context[Any],
        node: Node,
        identity: str,
        load: Callable[[int, list[Any]], None],
        apply: Callable[[int, list[Any]], None],
    ) -> None:
        self.load = load
        self.apply = apply
        self.version = -1
        self.early: list[tuple[int, list[Any]]] = []
        self.loading = False
        self.last_request = 0
        self.pending: dict[int, tuple[bytes, Done]] = {}
        changes = open_socket(context, zmq.SUB)
        changes.setsockopt(zmq.SUBSCRIBE, b"")
        changes.connect(node.router_changes)
        requests = open_socket(context, zmq.DEALER)
        requests.setsockopt(zmq.IDENTITY, identity.encode())
        requests.connect(node.router_requests)
        self.changes = Endpoint(loop, changes, self.on_change)
        self.requests = Endpoint(loop, requests, self.on_reply)
        self.ask_for_snapshot()

    def request(self, name: str, arguments: dict[str, Any], done: Done) -> None:
        """Ask; `done(result, error)` is called with the answer, after a restart of the router if need be."""
        self.last_request += 1
        frame = bus.pack([self.last_request, name, arguments])
        self.pending[self.last_request] = (frame, done)
        self.requests.send([frame])

    def router_started(self) -> None:
        """A new router has no memory of what the old one was asked, and may have published unheard."""
        for frame, _ in list(self.pending.values()):
            self.requests.send([frame])
        self.ask_for_snapshot()

    def ask_for_snapshot(self) -> None:
        if not self.loading:
            self.loading = True
            self.request("snapshot", {}, lambda result, _: self.on_snapshot(result))

    def on_reply(self, frames: list[bytes]) -> None:
        request, version, result, error = bus.unpack(frames[0])
        _, done = self.pending.pop(request, (b"", None))
        if done is None:
            return
        if isinstance(result, dict) and "changes" in result:
            result["version"] = version
        done(result, error)

    def on_snapshot(self, snapshot: dict[str, Any]) -> None:
        self.loading = False
        if snapshot["version"] >= self.version:
            self.version = snapshot["version"]
            self.load(self.version, snapshot["changes"])
        early, self.early = self.early, []
        for version, changes in early:
            self.follow(version, changes)

    def on_change(self, frames: list[bytes]) -> None:
        version, changes = bus.unpack(frames[0])
        self.follow(version, changes)

    def follow(self, version: int, changes: list[Any]) -> None:
        if self.loading:
            self.early.append((version, changes))
        elif version == self.version + 1:
            self.version = version
            self.apply(version, changes)
        elif version > self.version:
            log.warning("topology changes missed", have=self.version, got=version)
            self.early.append((version, changes))
            self.ask_for_snapshot()

    def close(self) -> None:
        self.changes.close()
        self.requests.close()
