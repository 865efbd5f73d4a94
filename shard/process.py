"""The shard process: sockets, loop and signals round the core."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
import zmq

from penstock import bus, logs, process
from penstock.arena import Borrower
from penstock.endpoint import Endpoint, TurnEndpoint, open_socket
from penstock.gauges import Gauges
from penstock.node import Node
from penstock.router_client import RouterClient
from shard.core import ShardCore
from shard.link import life_of
from shard.queue_cy import NEVER

log = logs.get_logger()


class Shard:
    """One life of one shard."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.loop = loop
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges)
        self.core = ShardCore(index, self.gauges, node.settings, now_us())
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"shard.{index}.{incarnation}"
        self.identity = identity.encode()
        self.peers: list[TurnEndpoint | None] = [None] * node.shards
        self.met = [0] * node.shards
        self.timer: asyncio.TimerHandle | None = None
        self.wake = NEVER
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        acceptors = open_socket(self.context, zmq.ROUTER)
        acceptors.setsockopt(zmq.ROUTER_MANDATORY, 1)
        acceptors.bind(node.shard(index, incarnation))
        self.borrower = Borrower(2 * node.acceptors)
        self.acceptors = TurnEndpoint(loop, acceptors, self.on_turn, self.finish_turn, self.borrower, names_sender=True)
        events = open_socket(self.context, zmq.SUB)
        events.setsockopt(zmq.SUBSCRIBE, b"")
        events.connect(node.process_events)
        self.events = Endpoint(loop, events, self.on_process_event)
        for peer in range(node.shards):
            started = self.gauges.process_read("shard", peer)
            if started.incarnation:
                self.connect_peer(peer, started.incarnation)
        self.ready = False

    def connect_peer(self, peer: int, incarnation: int) -> None:
        """Meet a life of another shard."""
        if peer == self.index or self.met[peer] == incarnation:
            return
        self.met[peer] = incarnation
        endpoint = self.peers[peer]
        if endpoint is not None:
            endpoint.close()
        dealer = open_socket(self.context, zmq.DEALER)
        dealer.setsockopt(zmq.IDENTITY, self.identity)
        dealer.connect(self.node.shard(peer, incarnation))

        def on_turn(
            identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
            octets: int,
        ) -> None:  # fmt: skip
            self.core.peers[peer].made_safe(turn)

        self.peers[peer] = TurnEndpoint(self.loop, dealer, on_turn, self.finish_turn, self.borrower, names_sender=False)
        self.core.peers[peer].started()

    def load(self, version: int, changes: list[Any]) -> None:
        self.core.now = now_us()
        self.core.load(version, changes)
        self.finish_turn()
        if not self.ready:
            self.ready = True
            process.report_ready(self.context, self.node, "shard", self.index, self.incarnation)

    def apply(self, version: int, changes: list[Any]) -> None:
        self.core.now = now_us()
        self.core.apply(version, changes)
        self.finish_turn()

    def on_turn(
        self, identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
        octets: int,
    ) -> None:  # fmt: skip
        self.core.now = now_us()
        self.core.receive(identity, turn, version, heard, operations, parts)
        role, index, _ = life_of(identity)
        if role == "acceptor":
            self.gauges.pair_add_taken(index, self.index, octets)

    def on_process_event(self, frames: list[bytes]) -> None:
        event, role, index, incarnation, _ = bus.unpack(frames[0])
        self.core.now = now_us()
        if event == "died" and role in ("acceptor", "shard"):
            self.core.died(role, index, incarnation)
            if role == "shard":
                self.core.peers[index].died()
            self.finish_turn()
        elif event == "started" and role == "shard":
            self.connect_peer(index, incarnation)
            self.finish_turn()
        elif event == "started" and role == "router":
            self.router.router_started()

    def finish_turn(self) -> None:
        for identity, frames in self.core.finish_turn(now_us()):
            try:
                self.acceptors.send([identity, *frames])
            except zmq.ZMQError as error:
                log.info("peer cannot be reached", peer=identity.decode(), error=str(error))
        for index, frames in self.core.peers.close_turns(self.core.version):
            endpoint = self.peers[index]
            if endpoint is not None:
                endpoint.send(frames)
        requests, self.core.router_requests = self.core.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        self.set_timer()

    def set_timer(self) -> None:
        """Be there when the core wants to finish a turn though nothing came."""
        wake = self.core.next_wake()
        if wake >= self.wake:
            return
        if self.timer is not None:
            self.timer.cancel()
        self.wake = wake
        self.timer = self.loop.call_later(max(wake - now_us(), 0) / 1_000_000, self.on_timer)

    def on_timer(self) -> None:
        self.timer, self.wake = None, NEVER
        self.finish_turn()

    def answered(self, done: Any) -> Any:
        def finish(result: Any, error: Any) -> None:
            self.core.now = now_us()
            done(result, error)
            self.finish_turn()

        return finish


def now_us() -> int:
    return time.time_ns() // 1000


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    process.on_terminate(loop, stop.set)
    node = Node.load(runtime)
    logs.configure(node.settings, "shard", index)
    shard = Shard(loop, node, index, incarnation)
    process.freeze()
    log.info("shard started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    log.info("shard stops", messages=sum(q.depth for q in shard.core.queues.values()))
    shard.context.destroy(linger=0)


def main() -> None:
    runtime, index, incarnation = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    process.enter(runtime, "shard", index)
    process.keep_buffers()
    uvloop.run(serve(runtime, index, incarnation))
