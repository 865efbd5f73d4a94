"""The router process: sockets, loop and signals around the core."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import uvloop
import zmq

from penstock import bus
from penstock.bus.endpoint import Endpoint, open_socket, subscribe
from penstock.bus.router_messages import Published
from penstock.control.audit import Administrator, Audit, outcome_of
from penstock.control.control import Refusal
from penstock.control.control_server import ControlServer
from penstock.files.kept_clock import KeptClock
from penstock.files.witness import TOPOLOGY, Witness
from penstock.memory.gauges import Gauges
from penstock.memory.shared_counts import SharedCounts
from penstock.node import clock, collector, logs
from penstock.node.failures import Chores, end_on_failure, report
from penstock.node.node import Node
from penstock.process import process
from penstock.process.progress import Progress
from penstock.process.pulse import Pulse, Work
from penstock.settings import Settings
from penstock.telemetry.writer import Writer
from router.authority import extent
from router.authority.authority import Authority
from router.authority.binding_limits import BindingLimits
from router.authority.near_limits import NearLimits
from router.commands.registry import NOT_AUDITED
from router.core import Answered, RouterCore
from router.processes import Processes
from router.storage.recovery import TooManyQueues, recover
from router.storage.store import FILE_NAME, Store, Stored, StoreError

log = logs.get_logger()

RETRY_SECONDS = 1.0
"""Between attempts to store changes after an error of the disk."""
POLL_SECONDS = 1.0
"""Between polls: for dead acceptors of which no event came, for times that are up, for limits that are near."""


RESTART, UPGRADE = "acceptors_restart", "node_upgrade"
"""The commands that do not concern the topology: the supervisor carries them out."""


class Router:
    """One incarnation of the router."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        """Open everything and serve. StoreError or TooManyQueues if the stored topology cannot be used, Refusal if the
        definitions cannot.
        """
        self.loop = loop
        self.node = node
        self.gauges = Gauges.open(node.gauges)
        self.pulse = Pulse(self.gauges, "router", index, incarnation)
        witness = Witness(node.settings.data, TOPOLOGY, node.identity)
        self.store = Store(node.settings.data / FILE_NAME, node.epoch, witness)
        self.core = open_core(node, self.store, self.gauges, self.pulse)
        self.near_limits = NearLimits(
            SharedCounts.open(node.shared_counts, node.counting, node.acceptors),
            self.core.authority.ledger, node.settings.resolved_limits,
        )  # fmt: skip
        self.context: zmq.Context[Any] = zmq.Context()
        self.retrying = False
        self.closed = False
        self.clock = KeptClock(node.settings.data)
        self.clock_chores = Chores(loop, POLL_SECONDS, self.keep_clock)

        changes = open_socket(self.context, zmq.XPUB)
        changes.setsockopt(zmq.XPUB_VERBOSE, 1)
        changes.bind(node.router_changes)
        self.changes = Endpoint(loop, changes, self.on_subscription)
        self.events = subscribe(loop, self.context, node.process_events, self.on_event)
        self.processes = Processes(self.core, self.gauges)
        self.placing = self.core.authority.placing
        self.placing.places = node.shard_places
        self.placing.ask = self.ask_for_shard
        self.telemetry = Writer.of(node, "router", index, incarnation)
        if self.telemetry is not None:
            self.core.authority.moves.put = self.telemetry.put
        self.handle_deaths()
        self.gauges.set_topology_version(self.core.version)
        requests = open_socket(self.context, zmq.ROUTER)
        requests.setsockopt(zmq.ROUTER_HANDOVER, 1)
        requests.bind(node.router_requests)
        self.requests = Endpoint(loop, requests, self.on_request, self.finish_turn)
        self.audit = Audit(node.settings.data, "router", index)
        self.control = ControlServer(node.control, self.on_command, self.audit_command)
        self.index = index
        self.incarnation = incarnation

    async def start(self) -> None:
        """Accept commands as well, and report that the router is ready."""
        await self.control.start()
        process.report_ready(self.context, self.node, "router", self.index, self.incarnation)

    def on_command(self, command: str, arguments: dict[str, Any], answered: Answered) -> None:
        """Carry out a command in a turn of its own."""
        if command in (RESTART, UPGRADE) and not arguments:
            if command == RESTART:
                process.ask_for_restart(self.context, self.node, "acceptor")
            else:
                process.ask_for_upgrade(self.context, self.node)
            answered({"result": None})
            return
        try:
            self.core.command(command, arguments, answered)
            self.finish_turn()
        except Exception as error:
            report(self.loop, "a command failed", error)

    def audit_command(
        self, who: Administrator, command: str, arguments: dict[str, Any], answer: dict[str, Any]
    ) -> None:
        """Write the audit record of a command, unless it gets none."""
        if command not in NOT_AUDITED:
            self.audit.record(who, command, arguments, outcome_of(answer))

    def on_request(self, frames: list[bytes]) -> None:
        """Handle a request of an acceptor or a shard; the turn ends when the socket has no more."""
        if len(frames) == 2:
            self.core.receive(*frames)
        else:
            log.error("unreadable request", sender=frames[0].decode("ascii", "replace"), frames=len(frames))

    def on_subscription(self, frames: list[bytes]) -> None:
        """Publish the version: a new subscriber may have missed changes that led to it, and then asks for these."""
        if frames[0][:1] == b"\x01":
            self.changes.send([bus.pack(Published(self.core.version, None))])

    def on_event(self, _frames: list[bytes]) -> None:
        self.handle_deaths()

    def handle_deaths(self) -> None:
        """Do what follows from the deaths of processes, and finish the turn."""
        self.processes.handle_deaths()
        self.finish_turn()

    def ask_for_shard(self, shard: int, there: bool) -> None:
        """Ask the supervisor to start a shard, or (False) to end it for good."""
        process.ask_for_shard(self.context, self.node, shard, there=there)

    def poll(self) -> None:
        """Check for deaths, for times that are up and for limits that are near; again after POLL_SECONDS."""
        if self.closed:
            return
        self.core.end_expired()
        self.near_limits.update()
        if self.retrying:  # on a full disk the reserve may be all the room there is
            self.store.give_back_reserve()
        else:  # all states of shards are stored
            self.store.keep_reserve()
            self.placing.advance()
        self.handle_deaths()
        self.loop.call_later(POLL_SECONDS, self.poll)

    def keep_clock(self) -> None:
        """Store the time of the node's clock."""
        with self.pulse.during(Work.DISK):
            self.clock.keep()

    def finish_turn(self) -> None:
        """Store, publish, set the version in the gauges, reply: in this order (see `core`)."""
        if self.retrying:
            return
        try:
            with self.pulse.during(Work.DISK):
                turn = self.core.finish_turn()
        except StoreError as error:
            log.error("changes wait, they cannot be stored", problem=str(error), retry_in=RETRY_SECONDS)
            self.retrying = True
            self.loop.call_later(RETRY_SECONDS, self.retry)
            return
        if turn.published is not None:
            self.changes.send([turn.published])
            self.gauges.set_topology_version(turn.version)
        for identity, reply in turn.replies:
            self.requests.send([identity, reply])
        for answered, answer in turn.answers:
            answered(answer)

    def retry(self) -> None:
        """Try again to finish a turn that could not be stored."""
        self.retrying = False
        if not self.closed:
            self.finish_turn()

    async def close(self) -> None:
        """Stop serving and close everything."""
        self.closed = True
        self.pulse.stop()
        self.clock_chores.stop()
        self.clock.record()
        await self.control.close()
        for endpoint in (self.requests, self.changes, self.events):
            endpoint.close()
        self.context.destroy(linger=0)
        if self.telemetry is not None:
            self.telemetry.close()
        self.store.close()
        self.store.keep_reserve()
        self.gauges.close()


def open_core(node: Node, store: Store, gauges: Gauges, pulse: Pulse) -> RouterCore:
    """Return the core with the stored topology, or with that of a new node. Refusal of the definitions to import."""
    defaults = node.settings.flow.defaults
    stored = store.load(Progress(pulse, "topology is being read", "records").through)
    settling = Progress(pulse, "queues are being placed", "queues")
    open_slots = {slot for slot in gauges.queue_slots() if slot >= node.shard_places}
    ledger = recover(
        stored, node.shards, node.shard_places, node.settings.max_queues, defaults, open_slots, settling.through
    )
    settings = node.settings
    limit = extent.topology_limit(
        settings.max_topology_bytes, settings.memory.process_limit, 1 + settings.acceptors + settings.shards
    )
    bounds = extent.Bounds(
        settings.amqp.max_arguments_bytes, limit, max(limit * settings.user_topology_percent // 100, 1),
        settings.resolved_limits,
    )  # fmt: skip
    amqp = settings.amqp
    limits = BindingLimits(
        amqp.bindings_per_exchange, amqp.bindings_per_queue, amqp.pattern_words, amqp.binding_headers
    )
    core = RouterCore(
        Authority(ledger, node.shards, defaults, stored.name_key, clock.own(), bounds, limits), store, stored.turns,
        lambda records: Progress(pulse, "definitions are being imported", "records").through(records),
    )  # fmt: skip
    _ensure_accounts(core, settings, stored)
    return core


def _ensure_accounts(core: RouterCore, settings: Settings, stored: Stored) -> None:
    """Give the node the accounts that its settings ask for, and a new one those without which nobody could log in."""
    new, first = not stored.seeded, settings.first_user
    if settings.definitions is None and first.name is None and new:
        core.seed()
    if stored.begun:
        return
    if settings.definitions is not None:
        core.import_definitions(settings.definitions)
    if first.name is not None and first.password_file is not None:
        core.ensure_first_user(first.name, first.password_file, new and settings.definitions is None)


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    """Run the router until it is asked to terminate."""
    loop = asyncio.get_running_loop()
    end_on_failure(loop)
    node, stop = process.begin(runtime, "router", index)
    try:
        with collector.paused():
            router = Router(loop, node, index, incarnation)
            collector.keep()
    except (StoreError, TooManyQueues, Refusal) as error:
        process.refuse(runtime, "router", index, str(error))
    topology = router.core.authority.topology
    log.info("router started", pid=os.getpid(), incarnation=incarnation, version=topology.version,
             queues=len(topology.queues()))  # fmt: skip
    router.pulse.start(loop)
    await router.start()
    router.poll()
    await stop.wait()
    log.info("router stops", version=topology.version, queues=len(topology.queues()))
    await router.close()


def main(runtime: Path, index: int, incarnation: int) -> None:
    """Run the router in a process forked for it."""
    process.enter(runtime, "router", index)
    uvloop.run(serve(runtime, index, incarnation))
