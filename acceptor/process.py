"""The acceptor process: sockets, loop and signals around the core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
import zmq

from acceptor import questions
from acceptor.certificate_events import CertificateEvents
from acceptor.clients.clock_origin import ClockOrigin
from acceptor.clients.connection_state import ConnectionState
from acceptor.clients.spool import Spool
from acceptor.commands import NOT_AUDITED, carry_out, is_command
from acceptor.core import AcceptorCore
from acceptor.ending import SAFE_SECONDS, Ending
from acceptor.holding.flow_files import FlowFiles
from acceptor.logins.backend import AuthError
from acceptor.logins.backends import import_libraries
from acceptor.logins.known_passwords import KnownPasswords
from acceptor.logins.threads import Threads
from acceptor.measures import Measures
from acceptor.sockets.client_protocol import ClientProtocol
from acceptor.sockets.listener import Neighbours
from acceptor.sockets.listeners import Listeners
from acceptor.sockets.sockets import Sockets
from acceptor.turn_schedule import TurnSchedule
from penstock.batch.arena import Arena, Borrower
from penstock.bus.endpoint import subscribe
from penstock.bus.operations_cy import Operation
from penstock.bus.process_messages import ProcessMessage
from penstock.bus.router_client import RouterClient
from penstock.bus.shard_dialers import ShardDialers
from penstock.bus.shard_incarnations import started
from penstock.bus.turn_sockets import TurnSockets
from penstock.control.audit import Administrator, Audit, outcome_of
from penstock.control.control_server import ControlServer
from penstock.control.questions import answer
from penstock.memory.gauges import Gauges
from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import SharedRates
from penstock.node import clock, collector, logs
from penstock.node.failures import Chores
from penstock.node.node import Node
from penstock.process import process
from penstock.process.pulse import Pulse, Work
from penstock.telemetry.writer import Writer
from penstock.tls.errors import TlsError

log = logs.get_logger()

# Seconds between checks that are not urgent.
TICK_SECONDS = 1.0
# Milliseconds for the router to receive pending requests at the end.
LINGER_MS = 500


class Acceptor:
    """One incarnation of one acceptor."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int, descriptors: Sequence[int]
    ) -> None:
        self.loop = loop
        self.node = node
        self.gauges = Gauges.open(node.gauges)
        self.pulse = Pulse(self.gauges, "acceptor", index, incarnation)
        self.core = AcceptorCore(index, incarnation, self.gauges, node.settings, f"penstock@{socket.gethostname()}")
        self.state = self.core.state
        self.set_clock()
        self.state.flush = self.flush
        self.core.holding.delays.clock = clock.now_us
        self.state.tracing.clock = clock.now_us
        self.telemetry = Writer.of(node, "acceptor", index, incarnation)
        if self.telemetry is not None:
            self.state.record = self.telemetry.put
        authentication = self.core.authentication
        self.core.headcount.shared = SharedCounts.open(node.shared_counts, node.counting, index)
        self.core.headcount.rates = SharedRates.open(node.shared_rates)
        authentication.passwords.known = KnownPasswords.open(node.known_passwords)
        self.state.arena = self.make_arena()
        flow = node.settings.flow
        self.state.spool = Spool(node.settings.data, flow.parked_memory, flow.spool_limit)
        self.turn_sockets = TurnSockets(loop, Borrower(2 * node.acceptors), self.finish_turn)
        self.schedule = TurnSchedule(loop, self.core, self.finish_turn)
        self.threads = Threads(loop, self.read_clock, self.schedule.ask)
        authentication.passwords.background = self.threads.verifying
        for part in authentication.calling:
            part.background = self.threads.calling
        self.sockets: Sockets[ClientProtocol] = Sockets(
            loop, self.core, process.connections_most(), self.schedule.ask
        )  # fmt: skip
        neighbours = Neighbours(self.gauges, index)
        self.listeners = Listeners(
            self.sockets, node.settings.listeners, descriptors,
            lambda: neighbours.have_fewer_than(len(self.sockets.protocols)),
        )  # fmt: skip
        self.measures = Measures(loop, self.core, node.settings.memory.process_limit)
        self.ending: Ending | None = None
        self.all_safe = asyncio.Event()
        self.context: zmq.Context[Any] = zmq.Context()
        identity = f"acceptor.{index}.{incarnation}"
        self.shards = ShardDialers(self.turn_sockets, node, identity.encode())
        self.events = subscribe(loop, self.context, node.process_events, self.on_process_event)
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        self.meet_shards()
        self.questions = questions.questions(self.core)
        self.audit = Audit(node.settings.data, "acceptor", index)
        self.control = ControlServer(
            node.control_of("acceptor", index, incarnation), self.on_question, self.audit_command
        )  # fmt: skip
        self.questions["certificates"] = (self.listeners.certificates, {})
        self.flow_files = FlowFiles(node.settings.data, self.state, self.core.holding.books.ledger, self.core.events)
        self.rechecks = Chores(
            loop, node.settings.flow.recheck_seconds, self.notice_hang_ups, *self.core.rechecks(), self.caught_up,
            neighbours.count_clients, self.finish_turn,
        )  # fmt: skip
        self.ticks = Chores(
            loop, TICK_SECONDS, self.set_clock, *self.core.ticks(), self.meet_shards, self.accept_clients,
            self.measures.measure, self.flow_files.write_due, self.flow_files.keep_accounts,
            self.listeners.tick, CertificateEvents(self.core, self.listeners.expiring).publish, self.finish_turn,
        )  # fmt: skip

    def make_arena(self) -> Arena | None:
        """Return the arena for large contents, which are copied on their way if there is none (None)."""
        nbytes = self.node.settings.arena_bytes
        if not nbytes:
            return None
        try:
            return Arena(nbytes, self.node.shard_places, self.node.acceptors)
        except OSError as error:
            log.warning("no memory for an arena", bytes=nbytes, error=str(error))
            return None

    def renew_arena(self) -> None:
        """Begin a new arena, as a process died with blocks that it had borrowed; without memory for it, those stay
        lent.
        """
        if self.state.arena is not None:
            try:
                self.state.arena.begin()
            except OSError as error:
                log.warning("no memory for a new arena", error=str(error))

    # The other processes

    def connect_shard(self, shard: int, incarnation: int) -> None:
        """Connect to an incarnation of a shard. Events may pass before this process has subscribed to them: see
        `meet_shards`.
        """
        self.lose_shard(shard, incarnation - 1)

        def on_turn(
            identity: bytes, turn: int, version: int, last_report: int, operations: list[Operation], parts: list[Any],
            nbytes: int,
        ) -> None:  # fmt: skip
            self.core.receive(shard, turn, operations, parts)

        if self.shards.meet(shard, incarnation, on_turn):
            self.core.shard_started(shard)
            self.schedule.ask()

    def lose_shard(self, shard: int, incarnation: int) -> None:
        """Disconnect an incarnation of a shard that has died."""
        if self.shards.lose(shard, incarnation):
            self.core.shard_died(shard)
            self.schedule.ask()

    def meet_shards(self) -> None:
        """Connect to the shards that the gauges show, in case an event was missed, once this process serves."""
        if self.core.serves():
            for running in started(self.gauges):
                self.connect_shard(*running)

    def leave_shard(self, shard: int) -> None:
        """Forget a shard that was removed from the node."""
        self.shards.leave(shard)
        self.core.shard_gone(shard)
        self.schedule.ask()

    def on_process_event(self, frames: list[bytes]) -> None:
        """Process the supervisor's event about another process."""
        event, role, index, incarnation, _ = ProcessMessage.read(frames[0])
        if event == "died" and role not in ("console", "relay"):
            self.renew_arena()
        if role == "shard" and event == "died":
            self.lose_shard(index, incarnation)
        elif role == "shard" and event == "gone":
            self.leave_shard(index)
        elif role == "shard" and self.core.serves():
            self.connect_shard(index, incarnation)
        elif (role, index, incarnation) == ("acceptor", self.state.index, self.state.incarnation):
            if event == "replaces":
                self.core.replaces()
            self.meet_shards()
            self.accept_clients()
        elif role == "router" and event == "started":
            self.router.router_started()

    def load(self, version: int, changes: list[Any]) -> None:
        """Replace the replica of the topology; the first time, begin to serve."""
        first = not self.core.is_ready()
        with self.pulse.during(Work.LOADING):
            self.core.load(version, changes)
            self.caught_up()
        if first:
            self.loop.create_task(self.begin())

    def apply(self, version: int, changes: list[Any]) -> None:
        """Apply changes to the replica of the topology."""
        self.core.apply(version, changes)
        self.caught_up()

    def caught_up(self) -> None:
        """Let connections go on that waited for the replica, which has moved."""
        self.sockets.caught_up()
        self.schedule.ask()

    # Turns

    def finish_turn(self) -> None:
        """Send the turn to shards and router, write the clients' output, and schedule what remains for later."""
        self.schedule.begin()
        if self.ending is not None and self.ending.is_safe():
            self.all_safe.set()
        turns = self.core.finish_turn()
        if self.state.flush_first:
            confirmed, self.state.flush_first = self.state.flush_first, {}
            self.flush_all(confirmed)
        for shard, frames in turns:
            dialer = self.shards[shard]
            assert dialer is not None
            dialer.send(frames)
        self.schedule.sent()
        requests, self.state.router_requests = self.state.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        dirty, self.state.dirty = self.state.dirty, {}
        self.flush_all(dirty)
        self.schedule.end()

    def on_question(self, name: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        """Answer a question that an operator's command asks, or carry the command out."""
        self.state.now = self.loop.time()
        if is_command(name):
            carry_out(self.core, name, arguments, answered)
            self.schedule.ask()
        else:
            answered(answer(self.questions, name, arguments))

    def audit_command(
        self, who: Administrator, command: str, arguments: dict[str, Any], answer: dict[str, Any]
    ) -> None:
        """Write the audit record of a command, but not of a question that changes nothing."""
        if command in questions.AUDITED or command not in (*self.questions, *NOT_AUDITED):
            self.audit.record(who, command, arguments, outcome_of(answer))

    def answered(self, done: Any) -> Any:
        """Wrap the callback of a request to the router: finish the turn after it."""

        def finish(result: Any, error: Any) -> None:
            done(result, error)
            self.schedule.ask()

        return finish

    def flush_all(self, connections: Iterable[ConnectionState]) -> None:
        """Write the output of connections; a connection whose output cannot be written is `broken`."""
        for connection in connections:
            try:
                self.flush(connection)
            except Exception as error:
                connection.broken(error)

    def flush(self, connection: ConnectionState) -> None:
        """Write the output of a connection, or discard it if the socket is closed."""
        protocol = self.sockets.protocols.get(connection)
        if protocol is None:
            connection.output.pop_chunks()  # its client is gone
        elif connection.output.size:
            connection.last_sent = self.state.now
            protocol.flush(connection)

    # Periodic work

    def read_clock(self) -> None:
        """Set the core's time."""
        self.state.now = self.loop.time()

    def set_clock(self) -> None:
        """Set the core's time, and what converts it to the clocks of the node and the machine."""
        self.read_clock()
        began = clock.loop_began()
        self.state.origin = ClockOrigin(wall=began + clock.wall_ahead_us() / 1e6, node=began)

    def notice_hang_ups(self) -> None:
        """Process the events of paused sockets."""
        self.set_clock()
        drip = self.core.holding.drip
        for protocol, dead, closed in self.sockets.hang_ups.poll():
            if dead:
                protocol.transport.abort()
            elif protocol.connection is not None:
                drip.arrived(protocol.connection)
                if closed:
                    drip.hangs_up(protocol.connection)
                    self.core.budgets.unfinished.hangs_up(protocol.connection)

    # Clients

    async def begin(self) -> None:
        """Accept clients and operators' questions, and report that the process is ready."""
        if self.listeners.closed:  # the process ends before it has begun
            return
        self.accept_clients()
        await self.control.start()
        process.report_ready(self.context, self.node, "acceptor", self.state.index, self.state.incarnation)

    def accept_clients(self) -> None:
        """Listen, once this process serves."""
        if self.core.is_ready() and self.core.serves():
            self.listeners.start(self.node.settings.amqp.receive_buffer)

    async def close(self) -> None:
        """Shut down: confirm publishes in flight, close the connections, and give the clients a moment to answer."""
        began = self.loop.time()
        self.listeners.close()
        for _ in range(2):
            await asyncio.sleep(0)  # clients that were accepted get their protocols
        self.listeners.hang_up_on_arriving()
        await self.control.close()
        self.threads.close()
        for protocol in self.sockets.protocols.values():
            if not protocol.transport.is_closing():
                protocol.transport.pause_reading()
        self.ending = Ending(self.core, began)
        self.finish_turn()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.all_safe.wait(), SAFE_SECONDS)
        unheard = self.ending.close_connections()
        self.finish_turn()
        for connection, protocol in list(self.sockets.protocols.items()):
            if connection in unheard:
                protocol.transport.close()
            elif not protocol.transport.is_closing():
                protocol.transport.resume_reading()
        if self.sockets.protocols:
            self.sockets.emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.sockets.emptied.wait(), self.ending.patience(self.loop.time()))
        self.flow_files.write_all()
        await asyncio.gather(*(dialer.finish() for dialer in self.shards))
        if self.telemetry is not None:
            self.telemetry.close()
        self.context.destroy(linger=LINGER_MS)


def reread(runtime: Path, acceptor: Acceptor) -> None:
    """The configuration is read again: take the log level, and load the certificates."""
    logs.read_level(runtime)
    acceptor.listeners.reload()


async def serve(runtime: Path, index: int, incarnation: int, descriptors: Sequence[int]) -> None:
    """Run an acceptor until it is terminated."""
    loop = asyncio.get_running_loop()
    node, stop = process.begin(runtime, "acceptor", index)
    try:
        acceptor = Acceptor(loop, node, index, incarnation, descriptors)
    except (TlsError, AuthError) as error:
        process.refuse(runtime, "acceptor", index, str(error))
    process.on_reload(loop, partial(reread, runtime, acceptor))
    collector.collect_and_keep()
    acceptor.pulse.start(loop)
    log.info("acceptor started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    await acceptor.close()


def prepare(runtime: Path) -> None:
    """Make, in the process from which acceptors are forked, what they share."""
    settings = Node.load(runtime).settings
    listeners = settings.listeners
    for name in settings.auth.backends:
        import_libraries(name)
    if any(listener.is_tls for listener in listeners.values()):
        from acceptor.tls import outer_contexts  # not at the top: see acceptor/sockets/tls_sockets.py

        outer_contexts.prepare(listeners)


def main(runtime: Path, index: int, incarnation: int, *descriptors: int) -> None:
    """Run the acceptor process, with the descriptors of its listening sockets."""
    process.enter(runtime, "acceptor", index)
    process.keep_buffers()
    uvloop.run(serve(runtime, index, incarnation, descriptors))
