"""The shard process: sockets, loop and signals round the core."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvloop
import zmq

from penstock import bus, logs, process
from penstock.arena import Borrower
from penstock.batch_cy import Batch
from penstock.control_server import ControlServer
from penstock.endpoint import Endpoint, open_socket
from penstock.gauges import READY, STARTING, Gauges
from penstock.node import Node
from penstock.process_memory import own_memory
from penstock.questions import answer
from penstock.router_client import RouterClient
from penstock.turn_sockets import TurnDialer, TurnListener, TurnSockets
from shard import told
from shard.core import ShardCore
from shard.environment import StoreError
from shard.flushes import Flushes
from shard.journal import Commit, Journal
from shard.link import life_of
from shard.queue_cy import NEVER
from shard.queues import QueueState
from shard.recovered import Recovered
from shard.room import UNFLUSHED
from shard.segment_cy import Segment
from shard.store import Store

log = logs.get_logger()

# After so long a commit that failed is tried again.
RETRY_SECONDS = 1.0

# Between looks at what memory the node's processes use.
WEIGH_SECONDS = 1.0

LIVING = (STARTING, READY)


class Shard:
    """One life of one shard."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.loop = loop
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges)
        path, limit = node.settings.data / "shards" / str(index), node.settings.store.limit // node.shards
        flush_ms = node.settings.store.flush_ms
        self.store = Store(path, limit, flush_ms == 0, node.epoch, index)
        self.flushes = Flushes(loop, flush_ms / 1000, self.sync)
        self.journal = Journal(self.store.read)
        recovered = Recovered(self.store, self.journal, Progress().read_on)
        self.core = ShardCore(index, self.gauges, node.settings, now_us(), self.store.life, self.journal, recovered)
        self.core.commits.flushed_later = flush_ms > 0
        self.core.recover_links(self.store.links())
        self.writer = ThreadPoolExecutor(1, "writer")
        self.reader = ThreadPoolExecutor(1, "reader")
        self.flusher = ThreadPoolExecutor(1, "flusher")
        self.writing: tuple[Commit, Future[None]] | None = None
        self.resting = False
        self.ending = False
        if incarnation > 1:
            places = ((place, self.gauges.process_read("acceptor", place)) for place in range(node.acceptors))
            self.core.await_acceptors((place, life.incarnation) for place, life in places if life.state in LIVING)
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"shard.{index}.{incarnation}"
        self.identity = identity.encode()
        self.peers: list[TurnDialer | None] = [None] * node.shards
        self.met = [0] * node.shards
        self.timer: asyncio.TimerHandle | None = None
        self.wake = NEVER
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        self.turn_sockets = TurnSockets(loop, Borrower(2 * node.acceptors), self.finish_turn)
        self.acceptors = TurnListener(self.turn_sockets, node.shard(index, incarnation), self.on_turn)
        events = open_socket(self.context, zmq.SUB)
        events.setsockopt(zmq.SUBSCRIBE, b"")
        events.connect(node.process_events)
        self.events = Endpoint(loop, events, self.on_process_event)
        for peer in range(node.shards):
            started = self.gauges.process_read("shard", peer)
            if started.incarnation:
                self.connect_peer(peer, started.incarnation)
        self.ready = False
        loop.call_later(WEIGH_SECONDS, self.weigh_processes)
        self.questions = told.questions(self.core)
        self.control = ControlServer(node.control_of("shard", index, incarnation), self.on_question)

    def connect_peer(self, peer: int, incarnation: int) -> None:
        """Meet a life of another shard."""
        if peer == self.index or self.met[peer] == incarnation:
            return
        self.met[peer] = incarnation
        dialer = self.peers[peer]
        if dialer is not None:
            dialer.close()

        def on_turn(
            identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
            octets: int,
        ) -> None:  # fmt: skip
            self.core.peers[peer].made_safe(turn)

        path = self.node.shard(peer, incarnation)
        self.peers[peer] = TurnDialer(self.turn_sockets, path, self.identity, on_turn)
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

    def weigh_processes(self) -> None:
        self.core.gate.processes_hold(own_memory(self.gauges), now_us())
        self.finish_turn()
        self.loop.call_later(WEIGH_SECONDS, self.weigh_processes)

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

    def on_question(self, name: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        self.core.now = now_us()
        answered(answer(self.questions, name, arguments))

    def finish_turn(self) -> None:
        if self.ending:
            return  # the loop goes round once more when all is written
        for identity, frames in self.core.finish_turn(now_us()):
            if not self.acceptors.send(identity, frames):
                log.info("peer cannot be reached", peer=identity.decode())
        for index, frames in self.core.peers.close_turns(self.core.version):
            dialer = self.peers[index]
            if dialer is not None:
                dialer.send(frames)
        requests, self.core.router_requests = self.core.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        commit = None if self.resting else self.core.commits.hand_over()
        if commit is not None:
            writing = self.in_background(
                self.writer, lambda: self.store.write(commit), lambda error: self.written(commit, error)
            )
            self.writing = commit, writing
        if self.core.commits.awaited:
            self.flushes.want(at_once=True)
        reads, self.core.paging.reads = self.core.paging.reads, []
        for queue, segments in reads:
            self.read_ahead(queue, segments)
        self.set_timer()

    # The store

    def in_background(
        self, thread: ThreadPoolExecutor, work: Callable[[], None], done: Callable[[StoreError | None], None]
    ) -> Future[None]:
        """Have a thread use the store: the loop does not wait for the disk."""

        def finish(future: Future[None]) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, StoreError):
                raise error
            self.core.now = now_us()
            done(error)

        future = thread.submit(work)
        future.add_done_callback(lambda future: self.loop.call_soon_threadsafe(finish, future))
        return future

    def written(self, commit: Commit, error: StoreError | None) -> None:
        """A commit is in the store, or is to be tried again, with what gathers until then."""
        self.writing = None
        if error is not None:
            self.resting = True
            self.loop.call_later(RETRY_SECONDS, self.commit_again)
            self.core.commits.failed(commit, error.reason)
        else:
            if self.store.overflowed():
                self.core.gate.store_overflows(self.core.now)
            self.core.commits.written()
            self.flushes.want()
        self.finish_turn()

    def commit_again(self) -> None:
        self.resting = False
        self.core.now = now_us()
        self.finish_turn()

    def read_ahead(self, queue: QueueState, segments: list[Segment]) -> None:
        """Have contents read that will soon be wanted."""
        batches: list[Batch] = []

        def read() -> None:
            batches.extend(self.journal.load(queue.id, segment) for segment in segments)

        def done(error: StoreError | None) -> None:
            self.core.paging.were_read(queue, segments, batches)
            self.finish_turn()

        self.in_background(self.reader, read, done)

    def sync(self) -> None:
        """Have what was written since the last time on the disk."""
        self.core.commits.flush_begins()
        self.in_background(self.flusher, self.store.sync, self.synced)

    def synced(self, error: StoreError | None) -> None:
        if error is None:
            self.core.gate.store_works(UNFLUSHED, self.core.now)
            self.core.commits.flushed()
        else:
            self.core.commits.not_flushed()
            self.core.gate.store_fails(UNFLUSHED, error.reason, self.core.now)
        self.flushes.ended(error is not None)
        self.finish_turn()

    async def close(self) -> None:
        """Take in and write down what is left. StoreError if that cannot be done."""
        await self.control.close()
        await self.acceptors.take_rest()
        self.ending = True
        self.flushes.stop()
        self.reader.shutdown(wait=True)
        self.writer.shutdown(wait=True)
        self.flusher.shutdown(wait=True)
        if self.writing is not None:
            commit, writing = self.writing
            if writing.exception() is None:
                self.core.commits.written()
            else:
                self.core.commits.take_back(commit)
        self.core.commits.note_positions()
        last = self.core.commits.hand_over()
        if last is not None:
            self.store.write(last)
        self.store.end()

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


class Progress:
    """A log line for each second that reading the store takes."""

    def __init__(self) -> None:
        self.began = self.told = time.monotonic()

    def read_on(self, messages: int) -> None:
        now = time.monotonic()
        if now - self.told >= 1:
            self.told = now
            log.info("store is being read", messages=messages, seconds=round(now - self.began, 1))


def now_us() -> int:
    return time.time_ns() // 1000


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    process.on_terminate(loop, stop.set)
    node = Node.load(runtime)
    logs.configure(node.settings, "shard", index)
    try:
        shard = Shard(loop, node, index, incarnation)
    except StoreError as error:
        log.error("shard cannot start", problem=str(error))
        sys.exit(1)
    process.freeze()
    await shard.control.start()
    log.info("shard started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    log.info("shard stops", messages=sum(q.depth for q in shard.core.queues.values()))
    try:
        await shard.close()
    except StoreError as error:
        log.error("shard ends without its last commit", problem=str(error))
    shard.context.destroy(linger=0)


def main() -> None:
    runtime, index, incarnation = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    process.enter(runtime, "shard", index)
    process.keep_buffers()
    uvloop.run(serve(runtime, index, incarnation))
