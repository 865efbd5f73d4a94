"""ZeroMQ sockets on an asyncio loop.

A ZeroMQ socket signals its file descriptor only when it turns from quiet to ready, and a send may swallow the signal:
so after every use the socket is asked whether there is more (zmq_getsockopt(3), ZMQ_FD).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from penstock import bus
from penstock.arena import Borrower
from penstock.logs import get_logger

log = get_logger()

# Messages taken in before the loop gets a turn.
READ_AT_MOST = 256

# As plain numbers: on the path of a turn, enumerations cost more than the calls that take them.
_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_RCVMORE = int(zmq.RCVMORE)
_POLLIN = int(zmq.POLLIN)


class Endpoint:
    """One socket of whole messages. `on_frames` takes each that arrives, `on_drained` ends a turn of them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: zmq.Socket[bytes],
        on_frames: Callable[[list[Any]], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self.loop = loop
        self.socket = socket
        self.on_frames = on_frames
        self.on_drained = on_drained
        self.scheduled = False
        self.closed = False
        self.fd = int(socket.get(zmq.FD))
        loop.add_reader(self.fd, self.drain)
        self.check()

    def readable(self) -> bool:
        return not self.closed and bool(int(self.socket.get(_EVENTS)) & _POLLIN)

    def check(self) -> None:
        """Come back if there is more to read: called after every use of the socket."""
        if not self.scheduled and self.readable():
            self.scheduled = True
            self.loop.call_soon(self.drain)

    def drain(self) -> None:
        """Take in what arrived."""
        self.scheduled = False
        received = 0
        while received < READ_AT_MOST and self.readable():
            received += 1
            self.receive()
        if received and self.on_drained is not None:
            self.on_drained()
        if received == READ_AT_MOST:
            self.check()

    def receive(self) -> None:
        self.on_frames(self.socket.recv_multipart(_NOBLOCK))

    def send(self, frames: list[Any]) -> None:
        """Queue one message. zmq.ZMQError if the peer is not there and the socket insists on it."""
        last = len(frames) - 1
        for i, frame in enumerate(frames):
            # Copied: lending a buffer to ZeroMQ wakes a thread to take it back, which costs more than a copy. But what
            # came as a whole frame leaves as one.
            flags = _MORE if i < last else _NOBLOCK
            whole: object = frame.obj if isinstance(frame, memoryview) else None
            if isinstance(whole, zmq.Frame) and len(whole) == len(frame):
                self.socket.send(whole, flags, copy=False)
            else:
                self.socket.send(frame, flags)
        self.check()

    def close(self) -> None:
        """Let go of the socket and of what it has not sent."""
        if not self.closed:
            self.closed = True
            self.loop.remove_reader(self.fd)
            self.socket.close(linger=0)


class TurnEndpoint(Endpoint):
    """One socket of turns (see `penstock.bus`). `on_turn` takes the identity of the sender (empty where the socket
    names none), turn, version, heard, operations, parts, and how many octets all of it was. What was lent is borrowed
    by `borrower`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: zmq.Socket[bytes],
        on_turn: Callable[[bytes, int, int, int, list[list[Any]], list[Any], int], None],
        on_drained: Callable[[], None],
        borrower: Borrower,
        *,
        names_sender: bool,
    ) -> None:
        self.on_turn = on_turn
        self.borrower = borrower
        self.names_sender = names_sender
        super().__init__(loop, socket, lambda frames: None, on_drained)

    def receive(self) -> None:
        identity = self.socket.recv(_NOBLOCK) if self.names_sender else b""
        head = self.socket.recv(_NOBLOCK)
        turn, version, heard, operations, parts, large = bus.unpack(head)
        octets = len(head)
        if large:
            for i, part in enumerate(parts):
                if part is None:
                    parts[i] = self.socket.recv(_NOBLOCK, copy=False).buffer
                elif isinstance(part, list):
                    try:
                        parts[i] = self.borrower.borrow(part)
                    except OSError as error:
                        log.info("turn dropped: who sent it is gone", sender=identity.decode(), error=str(error))
                        self.skip()
                        return
                octets += len(parts[i])
        self.on_turn(identity, turn, version, heard, operations, parts, octets)

    def skip(self) -> None:
        """Let go of what is left of a message."""
        while self.socket.get(_RCVMORE):
            self.socket.recv(_NOBLOCK)


def open_socket(context: zmq.Context[Any], kind: int) -> zmq.Socket[bytes]:
    """A socket without high-water marks: what may be in flight is bounded by those who send."""
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, 10)
    return socket
