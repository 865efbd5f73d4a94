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

log = logs.get_logger()


class Shard:
    """One life of one shard."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges)
        self.core = ShardCore(index, self.gauges, node.settings, now_us())
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"shard.{index}.{incarnation}"
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        acceptors = open_socket(self.context, zmq.ROUTER)
        acceptors.setsockopt(zmq.ROUTER_MANDATORY, 1)
        acceptors.bind(node.shard(index, incarnation))
        borrower = Borrower(2 * node.acceptors)
        self.acceptors = TurnEndpoint(loop, acceptors, self.on_turn, self.finish_turn, borrower, names_sender=True)
        events = open_socket(self.context, zmq.SUB)
        events.setsockopt(zmq.SUBSCRIBE, b"")
        events.connect(node.process_events)
        self.events = Endpoint(loop, events, self.on_process_event)
        self.ready = False

    def load(self, version: int, changes: list[Any]) -> None:
        self.core.load(version, changes)
        self.finish_turn()
        if not self.ready:
            self.ready = True
            process.report_ready(self.context, self.node, "shard", self.index, self.incarnation)

    def apply(self, version: int, changes: list[Any]) -> None:
        self.core.apply(version, changes)
        self.finish_turn()

    def on_turn(
        self, identity: bytes, turn: int, version: int, operations: list[list[Any]], parts: list[Any], octets: int
    ) -> None:
        self.core.receive(identity, turn, version, operations, parts)
        self.gauges.pair_add_taken(acceptor_of(identity), self.index, octets)

    def on_process_event(self, frames: list[bytes]) -> None:
        event, role, index, incarnation, _ = bus.unpack(frames[0])
        if event == "died" and role == "acceptor":
            self.core.acceptor_died(index, incarnation)
            self.finish_turn()
        elif event == "started" and role == "router":
            self.router.router_started()

    def finish_turn(self) -> None:
        for identity, frames in self.core.finish_turn(now_us()):
            try:
                self.acceptors.send([identity, *frames])
            except zmq.ZMQError as error:
                log.info("acceptor cannot be reached", acceptor=identity.decode(), error=str(error))
        requests, self.core.router_requests = self.core.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))

    def answered(self, done: Any) -> Any:
        def finish(result: Any, error: Any) -> None:
            done(result, error)
            self.finish_turn()

        return finish


def acceptor_of(identity: bytes) -> int:
    """The index in `acceptor.INDEX.INCARNATION`."""
    return int(identity.split(b".")[1])


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
