"""The shard process: sockets, loop and signals around the core."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
import zmq

from penstock.batch.arena import Borrower
from penstock.bus.endpoint import subscribe
from penstock.bus.operations_cy import Operation
from penstock.bus.process_messages import ProcessMessage
from penstock.bus.router_client import RouterClient
from penstock.bus.shard_dialers import ShardDialers
from penstock.bus.shard_incarnations import started
from penstock.bus.turn_sockets import TurnListener, TurnSockets
from penstock.control.control_server import ControlServer
from penstock.control.questions import answer
from penstock.files.witness import Witness, shard_name
from penstock.flow.flow_events import INCIDENT_SECONDS
from penstock.memory.gauges import Gauges
from penstock.memory.shared_counts import SharedCounts
from penstock.node import clock, collector, logs
from penstock.node.clock import now_us
from penstock.node.failures import end_on_failure
from penstock.node.node import Node
from penstock.process import process
from penstock.process.progress import Progress
from penstock.process.pulse import Pulse, Work
from shard import questions
from shard.contents.errors import StoreError
from shard.core import ShardCore
from shard.flow.flow_files import FlowFiles
from shard.measures import Measures
from shard.queue.copying import remove_all
from shard.recovered import Recovered
from shard.shown_hands import ShownHands
from shard.store.journal import Journal
from shard.store.probe import check_store
from shard.store.store import Store
from shard.store_work import StoreWork
from shard.turns.link import incarnation_of
from shard.wake_timer import WakeTimer

log = logs.get_logger()

# Seconds between measurements of the memory of the node's processes.
WEIGH_SECONDS = 1.0


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
        store = Store(path, limit, flush_ms == 0, node.epoch, index, witness)
        journal = Journal(store.read)
        recovered = Recovered(store, journal, Progress(self.pulse, "store is being read", "messages").come_to)
        self.core = ShardCore(index, self.gauges, node.settings, now_us(), store.starts, journal, recovered)
        self.state, self.flow = self.core.state, self.core.flow
        self.state.incarnation = incarnation
        self.state.wall_ahead = clock.wall_ahead_us()
        self.core.recover_links(store.links())
        self.core.doing.begins(incarnation)
        remove_all(path)
        self.store_work = StoreWork(loop, self.core, store, journal, flush_ms, self.finish_turn)
        self.measures = Measures(
            loop, self.gauges, self.state, self.core.gate, self.store_work.commit_us, node.settings.memory.process_limit
        )  # fmt: skip
        self.core.await_acceptors()
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"shard.{index}.{incarnation}"
        self.timer = WakeTimer(loop, self.finish_turn)
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        self.turn_sockets = TurnSockets(loop, Borrower(2 * node.acceptors), self.finish_turn)
        self.peers = ShardDialers(self.turn_sockets, node, identity.encode())
        self.acceptors = TurnListener(self.turn_sockets, node.shard(index, incarnation), self.on_turn)
        self.events = subscribe(loop, self.context, node.process_events, self.on_process_event)
        for running in started(self.gauges):
            self.connect_peer(*running)
        shared = SharedCounts.open(node.shared_hands, node.shard_places, index)
        self.shown_hands = ShownHands(shared, self.core.consuming.hands, index)
        self.ready = False
        self.hands_over = False
        self.flow_files = FlowFiles(node.settings.data, index, self.flow, self.core.events)
        loop.call_later(WEIGH_SECONDS, self.weigh_processes)
        self.questions = questions.questions(self.core)
        self.control = ControlServer(node.control_of("shard", index, incarnation), self.on_question)

    def connect_peer(self, peer: int, incarnation: int) -> None:
        """Meet an incarnation of another shard. Events may pass before this process has subscribed: see
        `recheck_processes`.
        """
        self.lose_peer(peer, incarnation - 1)

        def on_turn(
            identity: bytes, turn: int, version: int, last_report: int, operations: list[Operation], parts: list[Any],
            nbytes: int,
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
        for running in started(self.gauges):
            self.connect_peer(*running)
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
        self.store_work.store.limit(self.node.settings.store.limit // shards)

    def on_turn(
        self, identity: bytes, turn: int, version: int, last_report: int, operations: list[Operation], parts: list[Any],
        nbytes: int,
    ) -> None:  # fmt: skip
        self.state.now = now_us()
        self.core.receive(identity, turn, version, last_report, operations, parts)
        role, index, _ = incarnation_of(identity)
        if role == "acceptor":
            self.gauges.pair_add_taken(index, self.index, nbytes)

    def weigh_processes(self) -> None:
        """Each second: measure memory and loop, publish the figures, and keep the records of flow control."""
        self.loop.call_later(WEIGH_SECONDS, self.weigh_processes)
        self.recheck_processes()
        self.shown_hands.publish_changes()
        self.state.wall_ahead = clock.wall_ahead_us()
        self.measures.measure()
        self.flow_files.write(self.flow.short_stops.take_due(now_us() / 1e6))
        self.keep_open_stops(INCIDENT_SECONDS)
        self.finish_turn()

    def on_process_event(self, frames: list[bytes]) -> None:
        event, role, index, incarnation, _ = ProcessMessage.read(frames[0])
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
        if self.store_work.ending:
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
        self.flow_files.write_gathered()
        self.store_work.begin()
        requests, self.state.router_requests = self.state.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        self.timer.ask(self.core.next_wake())

    def keep_open_stops(self, seconds: float) -> None:
        """Write the stops that have lasted so long; until all queues are known the file stays the last run's."""
        if self.ready:
            self.flow_files.keep_open_stops(seconds)

    async def close(self) -> None:
        """Apply and write everything that remains: what a restart of the node keeps, or all if the shard hands over to
        its next incarnation. Raises StoreError on failure.
        """
        await self.control.close()
        await self.acceptors.take_rest()
        self.store_work.ending = True
        self.flow_files.write(self.flow.short_stops.take_all())
        self.keep_open_stops(0)
        with self.pulse.during(Work.DISK):
            self.store_work.end(self.hands_over)

    def answered(self, done: Any) -> Any:
        def finish(result: Any, error: Any) -> None:
            self.state.now = now_us()
            done(result, error)
            self.finish_turn()

        return finish


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    loop = asyncio.get_running_loop()
    end_on_failure(loop)
    node, stop = process.begin(runtime, "shard", index)
    try:
        shard = Shard(loop, node, index, incarnation)
    except StoreError as error:
        process.refuse(runtime, "shard", index, str(error))

    def hand_over() -> None:
        shard.hands_over = True
        stop.set()

    loop.add_signal_handler(process.HAND_OVER, hand_over)
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
