"""A client's socket, between the loop and the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any

from acceptor.amqp.read_size import READ_BYTES
from acceptor.budgets.outputs import WRITE_HIGH_BYTES
from acceptor.clients.connection_stage import OVER
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.amqp.connection import Connection
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.tls_facts import TlsFacts
    from acceptor.sockets.sockets import Sockets

log = get_logger()

# getsockopt(2): a socket's memory in the kernel; the first two numbers are the bytes received and their limit.
SO_MEMINFO = 55
MEMINFO = struct.Struct("=II")
# The window offered to the client is a part of that limit: a third of the limit fills it, or nearly.
FILLED = 3
# A transport keeps writes that the kernel has not accepted one by one, each of half a KiB for an answer of 20 bytes.
# Beyond this number of writes, output gathers in the connection until the kernel has accepted them.
MANY_WRITES = 64
# Sockets whose last output is written and that wait for their clients to close them. Further ones are closed at once.
LINGER_MOST = 1024


def peer_of(transport: Any) -> tuple[str, int]:
    """Return the host and port of a socket's peer; empty once that is gone."""
    peer = transport.get_extra_info("peername") or ("", 0)
    return str(peer[0]), int(peer[1])


class ClientProtocol(asyncio.BufferedProtocol):
    """One client's socket. All sockets read into the acceptor's single buffer; the unprocessed rest of a read is kept
    here.
    """

    def __init__(self, sockets: Sockets[ClientProtocol], tls: TlsFacts | None = None) -> None:
        """`tls` if `transport` encrypts. `address` is the client's, if that is not the socket's peer."""
        self.sockets = sockets
        self.tls = tls
        self.address: tuple[str, int] | None = None
        self.transport: Any = None
        self.fd = -1
        self.connection: Connection | None = None
        self.rest = b""
        self.stalled = False
        self.dripping = 0
        self.writes = 0
        self.gathers = False
        self.lingers = False
        self.write_high = WRITE_HIGH_BYTES

    def connection_made(self, transport: Any) -> None:
        """Accept the client, or abort the connection if the limit of open files is near."""
        self.transport = transport
        self.fd = transport.get_extra_info("socket").fileno()
        host, port = self.address or peer_of(transport)
        self.sockets.set_clock()
        if not self.sockets.have_room_for(f"{host}:{port}"):
            transport.abort()
            return
        self.limit_write_buffer(WRITE_HIGH_BYTES)
        self.connection = self.sockets.core.connect(self, f"{host}:{port}", host, self.tls)
        self.sockets.protocols[self.connection] = self

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer behind the rest of the last read, as long as the next read (or drip) may be."""
        size, buffer = len(self.rest), self.sockets.buffer
        if size:
            buffer[:size] = self.rest
        nbytes = READ_BYTES if self.connection is None else self.connection.read_bytes()
        return buffer[size : size + (self.dripping or nbytes)]

    def buffer_updated(self, received: int) -> None:
        """Process a read; a drip is over with it."""
        if self.dripping:
            self.dripping = 0
            self.transport.pause_reading()
        self.receive(self.sockets.buffer, len(self.rest) + received)

    def receive(self, buffer: memoryview, end: int) -> None:
        """Give the bytes to the connection; while the replica is behind the topology, keep them instead."""
        connection = self.connection
        if self.lingers or connection is None:
            self.rest = b""
            return
        self.sockets.set_clock()
        if self.sockets.state.behind():
            self.stall(bytes(buffer[:end]))
            return
        used = connection.receive(buffer, end)
        self.rest = bytes(buffer[used:end]) if used < end else b""
        self.sockets.schedule_finish()

    def stall(self, data: bytes) -> None:
        """Keep the bytes, and stop reading until the replica has caught up."""
        self.rest = data
        self.stalled = True
        self.transport.pause_reading()
        self.sockets.stalled.append(self)

    def unstall(self) -> None:
        """Resume after the replica has caught up, with the bytes kept."""
        self.stalled = False
        if self.connection is None or self.connection.stage in OVER:
            return
        if not self.connection.pauses:
            self.transport.resume_reading()
        data = memoryview(bytearray(self.rest))
        self.receive(data, len(data))

    def eof_received(self) -> bool:
        """Have the transport close once the client has closed its side."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the closed socket and end its connection."""
        connection, self.connection = self.connection, None
        self.rest = b""
        self.sockets.lingering -= self.lingers
        self.lingers = False
        self.sockets.hang_ups.forget(self, closed=True)
        if connection is not None:
            self.sockets.protocols.pop(connection, None)
            self.sockets.state.dirty.pop(connection, None)
            if not self.sockets.protocols:
                self.sockets.emptied.set()
            connection.lost()
            self.sockets.schedule_finish()

    # Bytes out

    def flush(self, connection: ConnectionState) -> None:
        """Write the connection's output, or leave it to gather."""
        if self.gathers:
            if connection.writable and self.unsent() > self.write_high:
                self.sockets.delivery.writable(connection, False)
        else:
            self.write(connection.output.pop_chunks())
        if not connection.writable:
            self.sockets.outputs.wrote(connection)

    def write(self, chunks: list[Any]) -> None:
        """Write chunks; once more than `MANY_WRITES` are pending, let further output gather."""
        if not chunks or self.lingers or self.transport.is_closing():
            return
        if not self.transport.get_write_buffer_size():
            self.writes = 0
        self.transport.writelines(chunks)
        self.writes += len(chunks)
        if self.writes > MANY_WRITES and not self.gathers and self.transport.get_write_buffer_size():
            self.gathers = True
            self.transport.set_write_buffer_limits(high=0)  # resume_writing is called once the kernel has accepted all

    def pause_writing(self) -> None:
        """Report the socket as not writable, as the transport's buffer is full."""
        if self.connection is not None and self.connection.writable and not self.gathers:
            self.sockets.delivery.writable(self.connection, False)

    def resume_writing(self) -> None:
        """Write gathered output, or report the socket as writable."""
        if self.gathers:
            self.write_gathered()
        elif self.connection is not None:
            self.drained(self.connection)

    def write_gathered(self) -> None:
        """Write gathered output in one piece. If that is too much at once, the transport calls `pause_writing`."""
        self.gathers = False
        self.transport.set_write_buffer_limits(high=self.write_high)
        if self.connection is not None:
            was_writable = self.connection.writable
            self.write(self.connection.output.pop_chunks())
            if not was_writable and not self.gathers and self.unsent() <= self.write_high:
                self.drained(self.connection)

    def drained(self, connection: ConnectionState) -> None:
        """Report the socket as writable."""
        self.sockets.delivery.writable(connection, True)
        self.sockets.schedule_finish()

    # Called by the connection

    def pause_reading(self) -> None:
        """Stop reading; hang-ups are watched for meanwhile."""
        self.transport.pause_reading()
        self.sockets.hang_ups.watch(self)

    def resume_reading(self) -> None:
        """Resume reading, unless the socket is stalled or closing."""
        self.sockets.hang_ups.forget(self)
        if not self.stalled and not self.transport.is_closing():
            self.dripping = 0
            self.transport.resume_reading()

    def drip(self, nbytes: int) -> None:
        """Allow one read of at most `nbytes` bytes."""
        if not self.stalled and not self.transport.is_closing():
            self.dripping = nbytes
            self.transport.resume_reading()

    def limit_receive_buffer(self, nbytes: int) -> None:
        """Set the kernel's receive buffer, in bytes."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, nbytes)

    def limit_write_buffer(self, nbytes: int) -> None:
        """Set from how many unsent bytes on the socket counts as not writable."""
        self.write_high = nbytes
        if not self.gathers:
            self.transport.set_write_buffer_limits(high=nbytes)

    def is_overfull(self) -> bool:
        """Whether the kernel holds more received bytes than the receive buffer's limit, by its own accounting
        (sock_diag(7)).
        """
        held, limit = self.received()
        return held > limit

    def is_filled(self) -> bool:
        """Whether the kernel holds so many received bytes that the client's window is closed, or nearly."""
        held, limit = self.received()
        return held * FILLED > limit

    def received(self) -> tuple[int, int]:
        """Return the unread bytes that the kernel holds for the socket, by its own accounting, and their limit."""
        if self.stalled or self.transport.is_closing():
            return 0, 0
        client = self.transport.get_extra_info("socket")
        held, limit = MEMINFO.unpack(client.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size))
        return int(held), int(limit)

    def unsent(self) -> int:
        """Return the bytes written that the kernel has not accepted."""
        gathered = self.connection.output.size if self.gathers and self.connection is not None else 0
        return int(self.transport.get_write_buffer_size()) + gathered

    def finish(self) -> None:
        """Write the last output, then discard input until the client closes the socket."""
        if self.sockets.lingering >= LINGER_MOST or self.transport.is_closing():
            self.close()
            return
        self.write_rest()
        self.lingers = True
        self.sockets.lingering += 1
        self.transport.write_eof()
        self.sockets.hang_ups.forget(self)
        self.dripping = 0
        self.transport.resume_reading()

    def close(self) -> None:
        """Close the socket once the kernel has accepted all output."""
        self.write_rest()
        self.transport.close()

    def write_rest(self) -> None:
        """Write the output that has gathered."""
        if self.gathers and self.connection is not None:
            self.write(self.connection.output.pop_chunks())
