"""The acceptor process: sockets, loop and signals round the core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvloop
import zmq

from acceptor import told
from acceptor.connection import Connection
from acceptor.core import AcceptorCore
from penstock import bus, logs, process
from penstock.arena import Arena, Borrower
from penstock.control_server import ControlServer
from penstock.endpoint import Endpoint, open_socket
from penstock.gauges import Gauges
from penstock.node import Node
from penstock.questions import answer
from penstock.router_client import RouterClient
from penstock.turn_sockets import TurnDialer, TurnSockets

log = logs.get_logger()

# One read at most; a partial frame of at most the largest frame_max may stand before it.
READ_OCTETS = 256 * 1024
# What waits for a slow consumer's socket before its window stays closed.
WRITE_HIGH_OCTETS = 1024 * 1024
DRAIN_SECONDS = 2.0
# How long what clients sent before they are told of the end may take to become safe.
SAFE_SECONDS = 1.0
# For requests that the router has not taken yet, milliseconds.
LINGER_MS = 500
# getsockopt(2): what the kernel holds for a socket; the first two numbers are what is received and its limit, octets.
SO_MEMINFO = 55
MEMINFO = struct.Struct("=II")


class Acceptor:
    """One life of one acceptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int) -> None:
        self.loop = loop
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges)
        self.core = AcceptorCore(index, incarnation, self.gauges, node.settings, f"penstock@{socket.gethostname()}")
        self.core.now = loop.time()
        self.core.flush = self.flush
        self.verifier = ThreadPoolExecutor(1, "verifier")
        self.core.logins.background = self.in_background
        self.core.arena = self.make_arena()
        self.turn_sockets = TurnSockets(loop, Borrower(2 * node.acceptors), self.finish_turn)
        self.protocols: dict[Connection, ClientProtocol] = {}
        self.emptied = asyncio.Event()
        self.ending = False
        self.all_safe = asyncio.Event()
        self.stalled: list[ClientProtocol] = []
        self.finishing = False
        self.buffer = bytearray(READ_OCTETS + node.settings.amqp.frame_max + 64)
        self.context: zmq.Context[Any] = zmq.Context()
        self.shards: list[TurnDialer | None] = [None] * node.shards
        self.met = [0] * node.shards
        identity = f"acceptor.{index}.{incarnation}"
        self.identity = identity.encode()
        events = open_socket(self.context, zmq.SUB)
        events.setsockopt(zmq.SUBSCRIBE, b"")
        events.connect(node.process_events)
        self.events = Endpoint(loop, events, self.on_process_event)
        self.router = RouterClient(loop, self.context, node, identity, self.load, self.apply)
        for shard in range(node.shards):
            started = self.gauges.process_read("shard", shard)
            if started.incarnation:
                self.connect_shard(shard, started.incarnation)
        self.questions = told.questions(self.core)
        self.control = ControlServer(node.control_of("acceptor", index, incarnation), self.on_question)
        self.server: asyncio.Server | None = None
        self.recheck_timer = loop.call_later(node.settings.flow.recheck_seconds, self.recheck)
        self.next_tick = loop.time() + 1

    def make_arena(self) -> Arena | None:
        """Without one large contents are copied on their way."""
        octets = self.node.settings.arena_bytes
        if not octets:
            return None
        try:
            return Arena(octets, self.node.shards, self.node.acceptors)
        except OSError as error:
            log.warning("no memory for an arena", octets=octets, error=str(error))
            return None

    def renew_arena(self) -> None:
        """A process died with what it had borrowed. Without memory for a new arena those blocks stay lent."""
        if self.core.arena is not None:
            try:
                self.core.arena.begin()
            except OSError as error:
                log.warning("no memory for a new arena", error=str(error))

    # The other processes

    def connect_shard(self, shard: int, incarnation: int) -> None:
        """Meet a life of a shard; what was meant for an earlier one is dropped."""
        if self.met[shard] == incarnation:
            return
        self.met[shard] = incarnation
        dialer = self.shards[shard]
        if dialer is not None:
            dialer.close()

        def on_turn(
            identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: list[Any],
            octets: int,
        ) -> None:  # fmt: skip
            self.core.receive(shard, turn, operations, parts)

        path = self.node.shard(shard, incarnation)
        self.shards[shard] = TurnDialer(self.turn_sockets, path, self.identity, on_turn)
        self.core.shard_started(shard)
        self.schedule_finish()

    def on_process_event(self, frames: list[bytes]) -> None:
        event, role, index, incarnation, _ = bus.unpack(frames[0])
        if event == "died":
            self.renew_arena()
        if role == "shard" and event == "died":
            self.core.shard_died(index)
            self.schedule_finish()
        elif role == "shard":
            self.connect_shard(index, incarnation)
        elif role == "router" and event == "started":
            self.router.router_started()

    def load(self, version: int, changes: list[Any]) -> None:
        first = not self.core.loaded
        self.core.load(version, changes)
        self.caught_up()
        if first:
            self.loop.create_task(self.listen())

    def apply(self, version: int, changes: list[Any]) -> None:
        self.core.apply(version, changes)
        self.caught_up()

    def caught_up(self) -> None:
        """The replica moved: connections that waited for it go on."""
        if self.stalled and not self.core.behind():
            stalled, self.stalled = self.stalled, []
            for protocol in stalled:
                protocol.unstall()
        self.schedule_finish()

    # Turns

    def schedule_finish(self) -> None:
        """Finish the turn once everything that is ready has been read."""
        if not self.finishing:
            self.finishing = True
            self.loop.call_soon(self.finish_turn)

    def finish_turn(self) -> None:
        self.finishing = False
        if self.ending and not self.has_unsafe():
            self.all_safe.set()
        for shard, frames in self.core.finish_turn():
            dialer = self.shards[shard]
            assert dialer is not None
            dialer.send(frames)
        requests, self.core.router_requests = self.core.router_requests, []
        for name, arguments, done in requests:
            self.router.request(name, arguments, self.answered(done))
        dirty, self.core.dirty = self.core.dirty, {}
        for connection in dirty:
            self.flush(connection)

    def on_question(self, name: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
        self.core.now = self.loop.time()
        answered(answer(self.questions, name, arguments))

    def answered(self, done: Any) -> Any:
        def finish(result: Any, error: Any) -> None:
            done(result, error)
            self.schedule_finish()

        return finish

    def flush(self, connection: Connection) -> None:
        protocol = self.protocols.get(connection)
        chunks = connection.output.take()
        if protocol is not None and chunks:
            connection.last_sent = self.core.now
            protocol.write(chunks)

    def in_background(self, work: Callable[[], bool], done: Callable[[bool], None]) -> None:
        """Verify a password in the one thread for it: argon2 lets go of the interpreter lock."""

        def finish(future: Future[bool]) -> None:
            self.core.now = self.loop.time()
            done(future.result())
            self.schedule_finish()

        def hand_over(future: Future[bool]) -> None:
            if not future.cancelled():
                self.loop.call_soon_threadsafe(finish, future)

        self.verifier.submit(work).add_done_callback(hand_over)

    def recheck(self) -> None:
        self.core.now = self.loop.time()
        self.notice_hang_ups()
        self.core.recheck()
        if self.core.now >= self.next_tick:
            self.next_tick = self.core.now + 1
            self.core.tick()
        self.caught_up()
        self.finish_turn()
        self.recheck_timer = self.loop.call_later(self.node.settings.flow.recheck_seconds, self.recheck)

    def notice_hang_ups(self) -> None:
        """A paused socket is not read, but a peer that closed or reset it is noticed all the same (poll(2))."""
        paused = {protocol.fd: protocol for c in self.core.throttle.paused if (protocol := self.protocols.get(c))}
        if not paused:
            return
        poll = select.poll()
        for fd in paused:
            poll.register(fd, select.POLLRDHUP)
        for fd, event in poll.poll(0):
            protocol = paused[fd]
            if event & (select.POLLERR | select.POLLHUP):
                protocol.transport.abort()
            elif protocol.connection is not None:
                self.core.throttle.hung_up.add(protocol.connection)

    # Clients

    async def listen(self) -> None:
        family = socket.AF_INET6 if ":" in self.node.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if self.node.settings.amqp.receive_buffer:
            # Accepted sockets inherit it; set later it would not shrink a window that was offered.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.node.settings.amqp.receive_buffer)
        listener.bind((self.node.host, self.node.port))
        self.server = await self.loop.create_server(lambda: ClientProtocol(self), sock=listener, backlog=1024)
        await self.control.start()
        process.report_ready(self.context, self.node, "acceptor", self.index, self.incarnation)

    async def close(self) -> None:
        """Confirm what is under way, tell the clients, give them a moment to answer, and go."""
        for _ in range(2):
            await asyncio.sleep(0)  # who has connected is accepted: a closed listener would reset them
        if self.server is not None:
            self.server.close()
        await self.control.close()
        self.verifier.shutdown(wait=True, cancel_futures=True)
        for protocol in self.protocols.values():
            if not protocol.transport.is_closing():
                protocol.transport.pause_reading()
        self.ending = True
        self.finish_turn()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.all_safe.wait(), SAFE_SECONDS)
        self.core.shut_down()
        self.finish_turn()
        for connection, protocol in list(self.protocols.items()):
            if not connection.closing:
                protocol.transport.close()  # not open yet: there is no saying why
            elif not protocol.transport.is_closing():
                protocol.transport.resume_reading()
        if self.protocols:
            self.emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.emptied.wait(), DRAIN_SECONDS)
        await asyncio.gather(*(dialer.finish() for dialer in self.shards if dialer is not None))
        self.context.destroy(linger=LINGER_MS)

    def has_unsafe(self) -> bool:
        """Whether there is something that shards have not got yet, or have not said to be safe."""
        return any(link.up and (link.sent or link.turn) for link in self.core.links)


class ClientProtocol(asyncio.BufferedProtocol):
    """One client's socket. All of them read into the acceptor's one buffer; what is left of a read is kept here."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor
        self.transport: Any = None
        self.fd = -1
        self.connection: Connection | None = None
        self.rest = b""
        self.stalled = False
        self.dripping = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_OCTETS)
        self.fd = transport.get_extra_info("socket").fileno()
        peer = transport.get_extra_info("peername") or ("", 0)
        self.acceptor.core.now = self.acceptor.loop.time()
        self.connection = self.acceptor.core.connect(self, f"{peer[0]}:{peer[1]}", peer[0])
        self.acceptor.protocols[self.connection] = self

    def get_buffer(self, sizehint: int) -> memoryview:
        size = len(self.rest)
        buffer = memoryview(self.acceptor.buffer)
        buffer[:size] = self.rest
        if self.dripping:
            return buffer[size : size + self.dripping]
        return buffer[size : size + READ_OCTETS]

    def buffer_updated(self, received: int) -> None:
        if self.dripping:
            self.dripping = 0
            self.transport.pause_reading()
        self.take(self.acceptor.buffer, len(self.rest) + received)

    def take(self, buffer: bytearray, end: int) -> None:
        """Give the octets to the connection, unless the replica is behind the topology: then they wait."""
        acceptor, connection = self.acceptor, self.connection
        assert connection is not None
        acceptor.core.now = acceptor.loop.time()
        if acceptor.core.behind():
            self.stall(bytes(buffer[:end]))
            return
        used = connection.receive(buffer, end)
        self.rest = bytes(memoryview(buffer)[used:end]) if used < end else b""
        acceptor.schedule_finish()

    def stall(self, octets: bytes) -> None:
        self.rest = octets
        self.stalled = True
        self.transport.pause_reading()
        self.acceptor.stalled.append(self)

    def unstall(self) -> None:
        self.stalled = False
        if self.connection is None or self.connection.closed:
            return
        if self.connection.reads:
            self.transport.resume_reading()
        octets = bytearray(self.rest)
        self.take(octets, len(octets))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self.acceptor.protocols.pop(connection, None)
            self.acceptor.core.dirty.pop(connection, None)
            if not self.acceptor.protocols:
                self.acceptor.emptied.set()
            connection.lost()
            self.acceptor.schedule_finish()

    def pause_writing(self) -> None:
        if self.connection is not None:
            self.acceptor.core.delivery.writable(self.connection, False)

    def resume_writing(self) -> None:
        if self.connection is not None:
            self.acceptor.core.delivery.writable(self.connection, True)
            self.acceptor.schedule_finish()

    # What the connection asks of its socket

    def write(self, chunks: list[Any]) -> None:
        if not self.transport.is_closing():
            self.transport.writelines(chunks)

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.stalled and not self.transport.is_closing():
            self.dripping = 0
            self.transport.resume_reading()

    def drip(self, octets: int) -> None:
        if not self.stalled and not self.transport.is_closing():
            self.dripping = octets
            self.transport.resume_reading()

    def limit_receive_buffer(self, octets: int) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, octets)

    def is_overfull(self) -> bool:
        """Whether the kernel holds more for it than the receive buffer's limit, by its own accounts (sock_diag(7))."""
        if self.stalled or self.transport.is_closing():
            return False
        client = self.transport.get_extra_info("socket")
        held, limit = MEMINFO.unpack(client.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size))
        return bool(held > limit)

    def close(self) -> None:
        self.transport.close()


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    process.on_terminate(loop, stop.set)
    node = Node.load(runtime)
    logs.configure(node.settings, "acceptor", index)
    acceptor = Acceptor(loop, node, index, incarnation)
    process.freeze()
    log.info("acceptor started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    await acceptor.close()


def main() -> None:
    runtime, index, incarnation = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    process.enter(runtime, "acceptor", index)
    process.keep_buffers()
    uvloop.run(serve(runtime, index, incarnation))
