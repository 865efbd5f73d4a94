"""Turns from one process's loop to another's (see `penstock.bus`).

ZMTP on Unix sockets, without libzmq: its threads would cost two wake-ups a turn on each side, and a copy of each part.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import bus
from penstock.batch.arena import Borrower
from penstock.bus import to_acceptor, to_shard, zmtp_cy
from penstock.bus.operations_cy import Operation, Operations
from penstock.node.failures import report
from penstock.node.logs import get_logger

log = get_logger()

# The kernel's send buffer of a connection, bytes, as far as it allows: each time it fills up wakes the receiver once.
SEND_BUFFER = 1024 * 1024
REDIAL_SECONDS = 0.01
# Time for the kernel to take the last turns of a socket that is closed.
LINGER_SECONDS = 0.5
# Maximum number of polls for last turns before the end.
LAST_READS = 256

# Identity of the sender (empty if it is a listener), turn, version, last report, operations, parts, bytes of the turn.
OnTurn = Callable[[bytes, int, int, int, list[Operation], list[Any], int], None]


class TurnSockets:
    """The shared state of a process's turn sockets. `on_drained` is called after each read that brought turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, borrower: Borrower, on_drained: Callable[[], None]) -> None:
        self.loop = loop
        self.on_drained = on_drained
        self.scratch = bytearray(zmtp_cy.SCRATCH_BYTES + zmtp_cy.LARGE + zmtp_cy.HEAD_MAX)
        self._borrower = borrower

    def read_turn(self, peer: bytes, frames: list[Any], receives: Operations, on_turn: OnTurn) -> None:
        """Hand on the turn of one message; a turn is dropped if a part it lends cannot be borrowed any more."""
        turn, version, last_report, operations, parts, large = bus.read_head(frames[0], receives)
        nbytes = len(frames[0])
        if large:
            apart = iter(frames[1:])
            for i, part in enumerate(parts):
                if part is None:
                    parts[i] = next(apart)
                elif isinstance(part, list):
                    try:
                        parts[i] = self._borrower.borrow(part)
                    except OSError as error:
                        log.info("turn dropped: its sender is gone", sender=peer.decode(), error=str(error))
                        return
                nbytes += len(parts[i])
        on_turn(peer, turn, version, last_report, operations, parts, nbytes)


class TurnConnection(asyncio.BufferedProtocol):
    """One connection. `on_open` is called once the peer has sent its identity, `on_lost` when the connection
    is closed.
    """

    def __init__(
        self, sockets: TurnSockets, ready: bytes, receives: Operations, on_turn: OnTurn,
        on_open: Callable[[TurnConnection], None], on_lost: Callable[[TurnConnection], None],
    ) -> None:  # fmt: skip
        self._sockets = sockets
        self._ready = ready
        self._receives = receives
        self._on_turn = on_turn
        self._on_open = on_open
        self._on_lost = on_lost
        self._receiver = zmtp_cy.Receiver(sockets.scratch)
        self.transport: Any = None

    @property
    def peer(self) -> bytes | None:
        """The identity of the other side; None before READY."""
        return self._receiver.peer

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        transport.write(zmtp_cy.GREETING + self._ready)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.room()

    def buffer_updated(self, count: int) -> None:
        known = self._receiver.peer is not None
        try:
            messages = self._receiver.received(count)
        except zmtp_cy.ZmtpError as error:
            log.warning("connection of another process closed", problem=str(error))
            self.transport.abort()
            return
        if not known and self._receiver.peer is not None:
            self._on_open(self)
        for frames in messages:
            try:
                self._sockets.read_turn(self._receiver.peer or b"", frames, self._receives, self._on_turn)
            except Exception as error:
                self._failed(error)
        if messages:
            try:
                self._sockets.on_drained()
            except Exception as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Report an exception; raised, it would make the loop close the connection."""
        report(self._sockets.loop, "a turn failed", error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost(self)

    def send(self, frames: list[Any]) -> None:
        """Queue one message; its buffers must not change afterwards."""
        if not self.transport.is_closing():
            self.transport.writelines(zmtp_cy.message(frames))


class TurnListener:
    """A shard's socket: receives the turns of processes that dial `path`, and answers each by its identity. OSError if
    it cannot listen there.
    """

    def __init__(self, sockets: TurnSockets, path: Path, on_turn: OnTurn) -> None:
        self._sockets = sockets
        self._on_turn = on_turn
        self._connections: dict[bytes, TurnConnection] = {}
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen()
        self._serving = sockets.loop.create_task(sockets.loop.create_unix_server(self._accept, sock=listener))

    def _accept(self) -> TurnConnection:
        return TurnConnection(
            self._sockets, zmtp_cy.ready("ROUTER"), to_shard.OPERATIONS, self._on_turn, self._opened, self._lost
        )

    def _opened(self, connection: TurnConnection) -> None:
        self._connections[connection.peer or b""] = connection

    def _lost(self, connection: TurnConnection) -> None:
        if self._connections.get(connection.peer or b"") is connection:
            del self._connections[connection.peer or b""]

    def send(self, peer: bytes, frames: list[Any]) -> bool:
        """Queue one message to a peer; return whether the peer is connected."""
        connection = self._connections.get(peer)
        if connection is None:
            return False
        connection.send(frames)
        return True

    async def take_rest(self) -> None:
        """Read the turns that peers have sent, including peers that are gone by now."""
        for _ in range(LAST_READS):
            poll = select.poll()
            for connection in self._connections.values():
                poll.register(connection.transport.get_extra_info("socket").fileno(), select.POLLIN)
            if not poll.poll(0):
                return
            await asyncio.sleep(0)


class TurnDialer:
    """Sends turns to the listener at `path`, once it exists, and receives turns from it. Turns sent earlier wait."""

    def __init__(self, sockets: TurnSockets, path: Path, identity: bytes, on_turn: OnTurn) -> None:
        self._sockets = sockets
        self._path = str(path)
        self._waiting: list[list[Any]] = []
        self._open = False
        self._gone = asyncio.Event()
        ready = zmtp_cy.ready("DEALER", identity)
        self._connection = TurnConnection(
            sockets, ready, to_acceptor.OPERATIONS, on_turn, self._opened, lambda connection: self._gone.set()
        )
        self._dialing = sockets.loop.create_task(self._dial())

    async def _dial(self) -> None:
        while True:
            try:
                await self._sockets.loop.create_unix_connection(lambda: self._connection, self._path)
                return
            except OSError:  # not there yet
                await asyncio.sleep(REDIAL_SECONDS)

    def _opened(self, connection: TurnConnection) -> None:
        self._open = True
        waiting, self._waiting = self._waiting, []
        for frames in waiting:
            connection.send(frames)

    def send(self, frames: list[Any]) -> None:
        """Queue one message. It is lost if the other side dies before reading it."""
        if self._open:
            self._connection.send(frames)
        else:
            self._waiting.append(frames)

    def close(self) -> None:
        """Close the connection and drop its unsent turns."""
        self._dialing.cancel()
        if self._connection.transport is not None:
            self._connection.transport.abort()

    async def finish(self) -> None:
        """Close once the kernel has taken the sent turns; wait at most `LINGER_SECONDS`."""
        self._dialing.cancel()
        if self._connection.transport is not None:
            self._connection.transport.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), LINGER_SECONDS)
