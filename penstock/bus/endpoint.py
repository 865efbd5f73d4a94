"""ZeroMQ sockets on an asyncio loop, for occasional messages between processes (turns: `turn_sockets.py`).

A ZeroMQ socket signals its file descriptor only when it turns from quiet to ready, and a send may swallow the signal:
so after every use the socket is checked for more to read (zmq_getsockopt(3), ZMQ_FD).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import zmq

from penstock.node.failures import report

# Messages read before the loop gets a turn.
READ_AT_MOST = 256


class Endpoint:
    """One socket of whole messages. `on_frames` receives each message, `on_drained` is called after reading them.
    Exceptions of either go to the loop's handler: they must not keep the next message back.
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
        """Whether a message can be read now."""
        return not self.closed and bool(int(self.socket.get(zmq.EVENTS)) & zmq.POLLIN)

    def check(self) -> None:
        """Schedule `drain` if there is more to read: called after every use of the socket."""
        if not self.scheduled and self.readable():
            self.scheduled = True
            self.loop.call_soon(self.drain)

    def drain(self) -> None:
        """Read the messages that have arrived."""
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
        """Queue one message. zmq.ZMQError if the socket requires a connected peer and there is none."""
        self.socket.send_multipart(frames, zmq.NOBLOCK)
        self.check()

    def close(self) -> None:
        """Close the socket and drop its unsent messages."""
        if not self.closed:
            self.closed = True
            self.loop.remove_reader(self.fd)
            self.socket.close(linger=0)


def open_socket(context: zmq.Context[Any], kind: int) -> zmq.Socket[bytes]:
    """Open a socket without high-water marks: the senders bound the messages in flight."""
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, 10)
    return socket


def subscribe(
    loop: asyncio.AbstractEventLoop, context: zmq.Context[Any], address: str, on_frames: Callable[[list[Any]], None]
) -> Endpoint:
    """Receive everything published at an address."""
    socket = open_socket(context, zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(address)
    return Endpoint(loop, socket, on_frames)
