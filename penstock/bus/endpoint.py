"""ZeroMQ sockets on an asyncio loop, for what is said between processes now and then (turns: `turn_sockets.py`).

A ZeroMQ socket signals its file descriptor only when it turns from quiet to ready, and a send may swallow the signal:
so after every use the socket is asked whether there is more (zmq_getsockopt(3), ZMQ_FD).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from penstock.node.failures import report

# Messages taken in before the loop gets a turn.
READ_AT_MOST = 256


class Endpoint:
    """One socket of whole messages. `on_frames` takes each that arrives, `on_drained` ends a reading of them. What they
    raise goes to the loop's handler: it must not keep the next message back.
    """

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
        return not self.closed and bool(int(self.socket.get(zmq.EVENTS)) & zmq.POLLIN)

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
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
            try:
                self.on_frames(frames)
            except Exception as error:
                report(self.loop, "a message failed", error)
        if received and self.on_drained is not None:
            try:
                self.on_drained()
            except Exception as error:
                report(self.loop, "a turn failed", error)
        if received == READ_AT_MOST:
            self.check()

    def send(self, frames: list[Any]) -> None:
        """Queue one message. zmq.ZMQError if the peer is not there and the socket insists on it."""
        self.socket.send_multipart(frames, zmq.NOBLOCK)
        self.check()

    def close(self) -> None:
        """Let go of the socket and of what it has not sent."""
        if not self.closed:
            self.closed = True
            self.loop.remove_reader(self.fd)
            self.socket.close(linger=0)


def open_socket(context: zmq.Context[Any], kind: int) -> zmq.Socket[bytes]:
    """A socket without high-water marks: what may be in flight is bounded by those who send."""
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, 10)
    return socket


def subscribe(
    loop: asyncio.AbstractEventLoop, context: zmq.Context[Any], address: str, on_frames: Callable[[list[Any]], None]
) -> Endpoint:
    """Take in all that is published at an address."""
    socket = open_socket(context, zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(address)
    return Endpoint(loop, socket, on_frames)
