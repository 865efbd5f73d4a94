"""The shard process: sockets, loop and signals around the core."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import uvloop
import zmq

from penstock import bus
from penstock.batch.arena import Borrower
from penstock.batch.batch_cy import Batch
from penstock.bus.endpoint import subscribe
from penstock.bus.router_client import RouterClient
from penstock.bus.shard_dialers import ShardDialers, started
from penstock.bus.turn_sockets import TurnListener, TurnSockets
from penstock.control.control_server import ControlServer
from penstock.control.questions import answer
from penstock.files.witness import Witness, shard_name
from penstock.flow.flow_events import INCIDENT_SECONDS
from penstock.flow.flow_records import FlowRecords
from penstock.memory.gauges import READY, STARTING, Gauges
from penstock.memory.shared_counts import SharedCounts
from penstock.node import clock, collector, logs
from penstock.node.clock import now_us
from penstock.node.failures import end_on_failure
from penstock.node.node import Node
from penstock.process import process
from penstock.process.process_memory import IdleMemory, NodeMemory
from penstock.process.progress import Progress
from penstock.process.pulse import Pulse, Work
from penstock.process.recent_samples import LoopLag, RecentSamples
from router.model.records import LEAVING
from shard import questions
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER
from shard.contents.segment_cy import Segment
from shard.core import ShardCore
from shard.disk_room import DiskRoom
from shard.flow.open_stops import OpenStops
from shard.moving.carrying import Carrier
from shard.queue.copying import remove_all
from shard.queue.queue_state import QueueState
from shard.recovered import Recovered
from shard.shown_hands import ShownHands
from shard.store.background import Background, Job
from shard.store.flushes import Flushes
from shard.store.journal import Commit, Journal
from shard.store.probe import check_store
from shard.store.store import Store
from shard.turns.link import life_of
from shard.turns.room import PROCESSES, UNFLUSHED

log = logs.get_logger()

# Seconds until a failed commit is retried.
RETRY_SECONDS = 1.0

# Seconds between measurements of the memory of the node's processes.
WEIGH_SECONDS = 1.0

LIVING = (STARTING, READY)


class Shard:
    """One incarnation of one shard."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.loop = loop
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges)
        self.pulse = Pulse(self.gauges, "shard", index, incarnation)
        path, limit = node.settings.data / "shards" / str(index), node.settings.store.limit // node.settings.shards
        flush_ms = node.settings.store.flush_ms
        if incarnation > 1:
            check_store(path, index)  # the contents that killed the previous incarnation may be in the store
        witness = Witness(node.settings.data, shard_name(index), node.identity)
        self.store = Store(path, limit, flush_ms == 0, node.epoch, index, witness)
        self.flushes = Flushes(loop, flush_ms / 1000, self.sync)
        self.journal = Journal(self.store.read)
        recovered = Recovered(self.store, self.journal, Progress(self.pulse, "store is being read", "messages").come_to)
        self.core = ShardCore(index, self.gauges, node.settings, now_us(), self.store.life, self.journal, recovered)
        self.state = self.core.state
        self.gate, self.commits, self.flow = self.core.gate, self.core.commits, self.core.flow
        self.state.incarnation = incarnation
        self.state.wall_ahead = clock.wall_ahead_us()
        self.commits.flushed_later = flush_ms > 0
        self.disk_room = DiskRoom(loop, self.store, self.state, self.gate, self.check_disk_room)
        self.core.stalls.set_aside = self.store.set_aside
        self.core.recover_links(self.store.links())
        self.core.doing.begins(incarnation)
        self.carrier = Carrier(self.core.moving, path.parent, self.carry)
        remove_all(path)
        self.writer = Background(loop, "writer")
        self.reader = Background(loop, "reader")
        self.flusher = Background(loop, "flusher")
        self.writing: tuple[Commit, Job] | None = None
        self.resting = False
        self.ending = False
        self.commit_us = RecentSamples()
        self.lag = LoopLag(loop)
        self.node_memory = NodeMemory(self.gauges)
        self.idle_memory = IdleMemory(node.settings.memory.process_limit)
        # In a first incarnation only those that serve: the others have not met a shard that is added to their node.
        awaited = LIVING if incarnation > 1 else (READY,)
        places = [(place, self.gauges.process_read("acceptor", place)) for place in range(node.acceptors)]
        lives = [(place, life.incarnation) for place, life in places if life.state in awaited]
        if lives or incarnation > 1:
            self.core.await_acceptors(lives)
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"shard.{index}.{incarnation}"
        self.timer: asyncio.TimerHandle | None = None
        self.wake = NEVER
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        self.turn_sockets = TurnSockets(loop, Borrower(2 * node.acceptors), self.finish_turn)
        self.peers = ShardDialers(self.turn_sockets, node, identity.encode())
        self.acceptors = TurnListener(self.turn_sockets, node.shard(index, incarnation), self.on_turn)
        self.events = subscribe(loop, self.context, node.process_events, self.on_process_event)
        for peer, life in started(self.gauges, node):
            self.connect_peer(peer, life)
        shared = SharedCounts.open(node.shared_hands, node.shard_places, index)
        self.shown_hands = ShownHands(shared, self.core.consuming.hands, index)
        self.ready = False
        self.flow_records = FlowRecords(node.settings.data, "shard", index)
        self.open_stops = OpenStops(node.settings.data, index)
        self.flow.earlier = self.open_stops.read()
        loop.call_later(WEIGH_SECONDS, self.weigh_processes)
        self.questions = questions.questions(self.state, self.flow)
        self.control = ControlServer(node.control_of("shard", index, incarnation), self.on_question)

    def connect_peer(self, peer: int, incarnation: int) -> None:
        """Meet an incarnation of another shard. Events may pass before this process has subscribed: see
        `recheck_processes`.
        """
        self.lose_peer(peer, incarnation - 1)

        def on_turn(
            identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
            octets: int,
        ) -> None:  # fmt: skip
            self.core.peers[peer].made_safe(turn)

        if peer != self.index and self.peers.meet(peer, incarnation, on_turn):
            self.core.peers[peer].started()

    def lose_peer(self, peer: int, incarnation: int) -> None:
        if self.peers.lose(peer, incarnation):
            self.core.peers[peer].died()

    def recheck_processes(self) -> None:
        """Apply the gauges' records of other processes, in case an event was missed."""
        self.state.now = now_us()
        for peer, life in started(self.gauges, self.node):
            self.connect_peer(peer, life)
        for index in range(self.node.acceptors):
            self.core.apply_known_deaths(index)

    def leave_peer(self, peer: int) -> None:
        """Another shard was removed from the node."""
        self.peers.leave(peer)
        self.core.peers[peer].end()

    def load(self, version: int, changes: list[Any]) -> None:
        self.state.now = now_us()
        with self.pulse.during(Work.LOADING):
            self.core.load(version, changes)
            self.share_limits()
            self.finish_turn()

    def apply(self, version: int, changes: list[Any]) -> None:
        self.state.now = now_us()
        self.core.apply(version, changes)
        if any(change[0] in ("shard", "shard_gone") for change in changes):
            self.share_limits()
        self.finish_turn()

    def share_limits(self) -> None:
        """Share the node's limits among the present shards."""
        shards = len(self.state.topology.shards)
        self.core.share_limits(self.node.settings, shards)
        self.store.limit(self.node.settings.store.limit // shards)

    def on_turn(
        self, identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
        octets: int,
    ) -> None:  # fmt: skip
        self.state.now = now_us()
        self.core.receive(identity, turn, version, heard, operations, parts)
        role, index, _ = life_of(identity)
        if role == "acceptor":
            self.gauges.pair_add_taken(index, self.index, octets)

    def weigh_processes(self) -> None:
        """Each second: measure memory and loop, publish the figures, and keep the records of flow control."""
        self.loop.call_later(WEIGH_SECONDS, self.weigh_processes)
        self.recheck_processes()
        with suppress(OSError, psutil.Error):  # too many files are open
            self.idle_memory.look(self.state.weight, self.gate.room.is_scarce(PROCESSES))
        self.shown_hands.publish_changes()
        self.state.wall_ahead = clock.wall_ahead_us()
        self.gate.update_processes(self.node_memory.look(), now_us())
        self.gauges.measures_write(
            "shard", self.index, self.lag.samples.percentile(50), self.lag.samples.percentile(99),
            self.commit_us.percentile(99), self.gate.stored,
        )  # fmt: skip
        self.write_records(self.flow.short_stops.take(now_us() / 1e6))
        self.keep_open_stops(INCIDENT_SECONDS)
        self.finish_turn()

    def on_process_event(self, frames: list[bytes]) -> None:
        event, role, index, incarnation, _ = bus.unpack(frames[0])
        self.state.now = now_us()
        if event == "died" and role in ("acceptor", "shard"):
            self.core.died(role, index, incarnation)
            if role == "shard":
                self.lose_peer(index, incarnation)
            self.finish_turn()
        elif event == "gone" and role == "shard":
            self.leave_peer(index)
            self.finish_turn()
        elif event == "started" and role == "shard":
            self.connect_peer(index, incarnation)
            self.finish_turn()
        elif event == "started" and role == "router":
            self.router.router_started()

    def on_question(self, name: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        self.state.now = now_us()
        answered(answer(self.questions, name, arguments))
        self.finish_turn()  # the question may have had consequences

    def finish_turn(self) -> None:
        """Finish a turn of the core: send its turns, and begin its writes, reads and requests."""
        if self.ending:
            return  # the loop runs once more after everything is written
        turns = self.core.finish_turn(now_us())
        if not self.ready and self.core.is_ready():
            self.ready = True
            process.report_ready(self.context, self.node, "shard", self.index, self.incarnation)
        for identity, frames in turns:
            if not self.acceptors.send(identity, frames):
                log.info("peer cannot be reached", peer=identity.decode())
        for index, frames in self.core.peers.close_turns(self.state.version):
            dialer = self.peers[index]
            if dialer is not None:
                dialer.send(frames)
        if self.flow.incidents or self.core.events.records:
            self.write_records([])
        self.carrier.begin()
        requests, self.state.router_requests = self.state.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        commit = None if self.resting else self.commits.hand_over()
        if commit is not None:
            writing = self.in_background(
                self.writer, lambda: self.write(commit), lambda error: self.written(commit, error)
            )
            self.writing = commit, writing
        if self.commits.awaited:
            self.flushes.want(at_once=True)
        reads, self.core.paging.reads = self.core.paging.reads, []
        for queue, segments in reads:
            self.read_ahead(queue, segments)
        self.set_timer()

    def write_records(self, short_stops: list[dict[str, Any]]) -> None:
        """Write the gathered records of flow control, and these sums of short stops."""
        flow, noted = self.flow, self.core.events
        events = [clock.as_wall(each, "at") for each in noted.records]
        stops = [[clock.as_wall(each, "begun", "ended") for each in some] for some in (flow.incidents, short_stops)]
        self.flow_records.write(events, *stops)
        flow.incidents, noted.records = [], []

    def keep_open_stops(self, seconds: float) -> None:
        """Write the stops that have lasted so long; until all queues are known the file stays the last run's."""
        if self.ready:
            self.open_stops.keep(self.flow.open_stops(now_us(), seconds))

    # The store

    def in_background(
        self, thread: Background, do: Callable[[], None], done: Callable[[StoreError | None], None]
    ) -> Job:
        """Run a function on the store in a thread: the loop does not wait for the disk."""

        def finish(job: Job) -> None:
            error = job.error
            if error is not None and not isinstance(error, StoreError):
                raise error
            self.state.now = now_us()
            done(error)

        return thread.begin(do, finish)

    def write(self, commit: Commit) -> None:
        """Write a commit, in the writer's thread."""
        began = time.monotonic_ns()
        self.store.write(commit)
        self.disk_room.check()
        self.commit_us.add((time.monotonic_ns() - began) // 1000)

    def written(self, commit: Commit, error: StoreError | None) -> None:
        """A commit is in the store, or will be retried together with later changes."""
        self.writing = None
        if error is not None:
            self.resting = True
            self.loop.call_later(RETRY_SECONDS, self.commit_again)
            self.commits.failed(commit, error.reason)
        else:
            if self.store.overflowed():
                self.gate.store_overflows(self.state.now)
            self.commits.written()
            self.flushes.want()
            self.disk_room.report()
        self.finish_turn()

    def check_disk_room(self) -> None:
        """Check the disk without a commit, unless the shard is ending."""
        if self.ending:
            return

        def checked(_error: StoreError | None) -> None:
            self.disk_room.report()
            self.finish_turn()

        self.in_background(self.writer, self.disk_room.check, checked)

    def commit_again(self) -> None:
        """Retry a failed commit."""
        self.resting = False
        self.state.now = now_us()
        self.finish_turn()

    def read_ahead(self, queue: QueueState, segments: list[Segment]) -> None:
        """Read contents that consumers will soon want."""
        batches: list[Batch] = []

        def read() -> None:
            batches.extend(self.journal.load(queue.id, segment) for segment in segments)

        def done(error: StoreError | None) -> None:
            self.core.paging.were_read(queue, segments, batches)
            self.finish_turn()

        self.in_background(self.reader, read, done)

    def carry(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run a piece of a queue's copy in the reader's thread."""
        if self.ending:
            return

        def finish(error: StoreError | None) -> None:
            done(error)
            self.finish_turn()

        self.in_background(self.reader, work, finish)

    def sync(self) -> None:
        """Flush everything written since the last flush to the disk."""
        self.commits.flush_begins()
        self.in_background(self.flusher, self.store.sync, self.synced)

    def synced(self, error: StoreError | None) -> None:
        """A flush has ended."""
        if error is None:
            self.gate.store_works(UNFLUSHED, self.state.now)
            self.commits.flushed()
        else:
            self.commits.not_flushed()
            self.gate.store_fails(UNFLUSHED, error.reason, self.state.now)
        self.flushes.ended(error is not None)
        self.finish_turn()

    async def close(self) -> None:
        """Apply and write everything that remains; delete an empty store of a shard that is removed.

        Raises StoreError on failure.
        """
        await self.control.close()
        await self.acceptors.take_rest()
        self.ending = True
        self.write_records(self.flow.short_stops.take_all())
        self.keep_open_stops(0)
        self.flushes.stop()
        self.disk_room.stop()
        self.reader.end()
        self.writer.end()
        self.flusher.end()
        if self.writing is not None:
            commit, writing = self.writing
            if writing.error is None:
                self.commits.written()
            else:
                self.commits.take_back(commit)
        self.commits.record_positions()
        last = self.commits.hand_over()
        if last is not None:
            self.store.write(last)
        known = self.state.topology.shards.get(self.index)
        if known is not None and known.state == LEAVING and self.store.is_empty():
            self.store.discard()
        else:
            self.store.end()

    def set_timer(self) -> None:
        """Finish a turn when the core wants to without input."""
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
            self.state.now = now_us()
            done(result, error)
            self.finish_turn()

        return finish


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    process.on_terminate(loop, stop.set)
    process.on_reload(loop, partial(logs.read_level, runtime))
    end_on_failure(loop)
    node = Node.load(runtime)
    clock.follow(node.clock_ahead_us)
    logs.configure(node.settings, "shard", index)
    try:
        shard = Shard(loop, node, index, incarnation)
    except StoreError as error:
        process.refuse(runtime, "shard", index, str(error))
    collector.collect_and_keep()
    shard.pulse.start(loop)
    await shard.control.start()
    log.info("shard started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    log.info("shard stops", messages=sum(q.depth for q in shard.state.queues.values()))
    try:
        await shard.close()
    except StoreError as error:
        log.error("shard ends without its last commit", problem=str(error))
    shard.context.destroy(linger=0)


def main(runtime: Path, index: int, incarnation: int) -> None:
    process.enter(runtime, "shard", index)
    process.keep_buffers()
    uvloop.run(serve(runtime, index, incarnation))
