"""A client that publishes in batches on a bare socket."""

from __future__ import annotations

import struct
import time

from load.confirms import ConfirmWindow
from load.frames import BASIC_ACK, CONFIRM_SELECT, CONFIRM_SELECT_OK
from load.target import Target
from load.wire import FRAME_OVERHEAD, METHOD_FRAME, Wire


class Publisher:
    """A client that publishes each batch in one write and waits until all of it is confirmed."""

    def __init__(self, target: Target) -> None:
        self.wire = Wire(target, timeout=120.0, capabilities=("publisher_confirms", "basic.nack"))
        self.wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        self.input = bytearray(self.wire.received)
        self.window = ConfirmWindow()

    def batch(self, data: bytes, count: int) -> float:
        """Publish a batch and return how many seconds its confirms took. ConnectionError if one is refused."""
        for _ in range(count):
            self.window.publish()
        began = time.monotonic()
        self.wire.socket.sendall(data)
        while self.window:
            self.input += self.wire.socket.recv(65536)
            while self.process_frame():
                pass
        return time.monotonic() - began

    def process_frame(self) -> bool:
        """Process one frame; return False if none is complete."""
        if len(self.input) < FRAME_OVERHEAD:
            return False
        kind, _, size = struct.unpack_from("!BHI", self.input)
        if len(self.input) < size + FRAME_OVERHEAD:
            return False
        if kind == METHOD_FRAME:
            method = struct.unpack_from("!HH", self.input, 7)
            if method != BASIC_ACK:
                raise ConnectionError(f"got method {method} instead of a confirm")
            self.window.settle(*struct.unpack_from("!Q?", self.input, 11))
        del self.input[: size + FRAME_OVERHEAD]
        return True
