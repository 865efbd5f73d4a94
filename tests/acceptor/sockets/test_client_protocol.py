"""A client's real socket, with the core of an acceptor behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from acceptor.clients.connection_state import ConnectionState
from acceptor.sockets.client_protocol import MANY_WRITES, ClientProtocol
from acceptor.sockets.sockets import Sockets
from tests.frames import PROTOCOL_HEADER, method_frame
from tests.simulator.joined.node import Node
from tests.waiting import PATIENCE

MIB = 1 << 20
START_OK = method_frame(
    "connection.start-ok", 0, client_properties={}, mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"
)  # fmt: skip


class Served(Node):
    """A node whose acceptor has real sockets."""

    def __init__(self, most: int = 10) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        self.loop = loop
        self.sockets: Sockets[ClientProtocol] = Sockets(loop, self.core(0), most, self.settle_soon)

    def settle_soon(self) -> None:
        """Let everything settle once what is ready has been read."""
        self.loop.call_soon(self.settle)

    def flush(self, connection: ConnectionState) -> None:
        """Write the output of a connection to its socket."""
        protocol = self.sockets.protocols.get(connection)
        if protocol is not None:
            protocol.flush(connection)


class Meeting:
    """One client, and the protocol of its socket at the acceptor."""

    def __init__(self, node: Served, protocol: ClientProtocol, client: socket.socket) -> None:
        self.node = node
        self.protocol = protocol
        self.client = client

    @property
    def connection(self) -> ConnectionState:
        """The client's connection at the acceptor."""
        assert self.protocol.connection is not None
        return self.protocol.connection

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def receive(self, count: int) -> bytes:
        """Return the next bytes; fewer if the acceptor has closed its side."""
        found = b""
        while len(found) < count:
            more = await asyncio.get_running_loop().sock_recv(self.client, count - len(found))
            if not more:
                break
            found += more
        return found

    async def receive_frame(self) -> tuple[int, int]:
        """Return the class and method of the next frame, which has a method."""
        header = await self.receive(7)
        frame = await self.receive(int.from_bytes(header[3:7], "big") + 1)
        return int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def run(scenario: Callable[[Meeting], Awaitable[None]], most: int = 10) -> None:
    """Run a scenario with one client that has connected."""

    async def within() -> None:
        loop = asyncio.get_running_loop()
        met: list[ClientProtocol] = []

        def made() -> ClientProtocol:
            met.append(ClientProtocol(node.sockets))
            return met[-1]

        with Served(most) as node, socket.socket() as client:
            server = await loop.create_server(made, "127.0.0.1", 0)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await until(lambda: met and met[0].transport is not None)
            await asyncio.wait_for(scenario(Meeting(node, met[0], client)), PATIENCE)
            server.close()
            if not met[0].transport.is_closing():
                met[0].transport.abort()
            await until(lambda: met[0].connection is None)

    uvloop.run(within())


def test_frames_are_put_together_from_the_reads_that_they_come_in() -> None:
    async def scenario(meeting: Meeting) -> None:
        protocol = meeting.protocol
        for octet in PROTOCOL_HEADER:
            await meeting.send(bytes([octet]))
        assert await meeting.receive_frame() == (10, 10)
        await meeting.send(START_OK[:20])
        await until(lambda: protocol.rest == START_OK[:20])
        await meeting.send(START_OK[20:] + b"\x01\x00")
        assert await meeting.receive_frame() == (10, 30)
        assert protocol.rest == b"\x01\x00"

    run(scenario)


def test_a_client_beyond_the_limit_of_files_is_refused() -> None:
    async def scenario(meeting: Meeting) -> None:
        with suppress(ConnectionResetError):
            assert await meeting.receive(1) == b""
        assert meeting.protocol.connection is None and not meeting.node.sockets.protocols
        (line,) = meeting.node.logs
        assert line["event"] == "connection refused: the limit of open files is near" and line["connections"] == 0

    run(scenario, most=0)


def test_reads_are_kept_until_the_replica_has_caught_up() -> None:
    async def scenario(meeting: Meeting) -> None:
        node, protocol = meeting.node, meeting.protocol
        node.gauges.set_topology_version(node.version + 1)
        await meeting.send(PROTOCOL_HEADER)
        await until(lambda: protocol.stalled)
        assert protocol.rest == PROTOCOL_HEADER and node.sockets.stalled == [protocol]
        node.gauges.set_topology_version(node.version)
        node.sockets.caught_up()
        assert not protocol.stalled and protocol.rest == b""
        assert await meeting.receive_frame() == (10, 10)
        await meeting.send(START_OK)
        assert await meeting.receive_frame() == (10, 30)

    run(scenario)


def test_the_last_output_is_written_before_the_socket_waits_for_its_client_to_close() -> None:
    async def scenario(meeting: Meeting) -> None:
        sockets = meeting.node.sockets
        await meeting.send(b"GET / HTTP/1.1\r\n")
        assert await meeting.receive(100) == PROTOCOL_HEADER
        assert meeting.protocol.lingers and sockets.lingering == 1
        await meeting.send(b"more, which nobody reads" * 100)
        meeting.client.shutdown(socket.SHUT_WR)
        await until(lambda: not sockets.protocols)
        assert sockets.lingering == 0 and not meeting.protocol.lingers

    run(scenario)


def test_a_client_that_goes_is_forgotten() -> None:
    async def scenario(meeting: Meeting) -> None:
        connection, sockets = meeting.connection, meeting.node.sockets
        await meeting.send(PROTOCOL_HEADER)
        await meeting.receive_frame()
        assert sockets.protocols == {connection: meeting.protocol} and not sockets.emptied.is_set()
        meeting.client.close()
        await until(lambda: meeting.protocol.connection is None)
        assert sockets.protocols == {} and sockets.emptied.is_set()
        assert not meeting.node.core(0).state.connections

    run(scenario)


def test_many_writes_that_the_kernel_does_not_accept_gather_and_keep_their_order() -> None:
    async def scenario(meeting: Meeting) -> None:
        connection, protocol = meeting.connection, meeting.protocol
        large, small = bytes(16 * MIB), [b"%04d" % number for number in range(MANY_WRITES + 1)]
        protocol.write([large])
        await until(lambda: not connection.writable)
        for each in small:
            protocol.write([each])
        assert protocol.gathers
        before = protocol.transport.get_write_buffer_size()
        connection.output.write(b"gathered")
        protocol.flush(connection)
        assert protocol.transport.get_write_buffer_size() == before
        assert protocol.unsent() == before + len(b"gathered")
        tail = b"".join(small) + b"gathered"
        found = await meeting.receive(len(large) + len(tail))
        assert found[len(large) :] == tail
        assert not protocol.gathers and connection.writable

    run(scenario)


def test_a_paused_socket_drips_one_read_of_so_many_bytes() -> None:
    async def scenario(meeting: Meeting) -> None:
        protocol = meeting.protocol
        protocol.pause_reading()
        await meeting.send(PROTOCOL_HEADER)
        await until(lambda: list(meeting.node.sockets.hang_ups.poll()) == [(protocol, False, False)])
        protocol.drip(3)
        await until(lambda: not protocol.dripping)
        assert protocol.rest == PROTOCOL_HEADER[:3]
        for _ in range(100):
            await asyncio.sleep(0)
        assert protocol.rest == PROTOCOL_HEADER[:3]
        protocol.resume_reading()
        assert await meeting.receive_frame() == (10, 10)

    run(scenario)


def test_unread_bytes_fill_the_buffer_in_the_kernel() -> None:
    async def scenario(meeting: Meeting) -> None:
        protocol = meeting.protocol
        protocol.pause_reading()
        protocol.limit_receive_buffer(16 * 1024)
        assert not protocol.is_filled()
        with suppress(BlockingIOError):  # the buffers of both sides are full
            while True:
                meeting.client.send(bytes(64 * 1024))
        await until(protocol.is_filled)
        protocol.transport.abort()
        assert not protocol.is_filled()

    run(scenario)
