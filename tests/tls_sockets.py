"""Clients' sockets with TLS that may be polled: a record counts as sent once the kernel has all of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tests.certificates import ClientSession
from tests.raw import Address

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

RECORD = 16 * 1024
"""The plaintext of the longest record."""
READ_SIZE = 64 * 1024


class TlsSocket(socket.socket):
    """A connected socket after its handshake; reading and writing are otherwise as without TLS."""

    def __init__(self, connected: socket.socket) -> None:
        """Take over a connected socket and shake hands."""
        timeout = connected.gettimeout()
        super().__init__(fileno=connected.detach())
        self.settimeout(timeout)
        self._session = ClientSession()
        self._output = bytearray()
        """What the kernel has yet to take of the last record."""
        self._taken = 0
        """The plaintext of the last record."""
        self._shake_hands()

    def _shake_hands(self) -> None:
        arrived = b""
        while not self._session.shake_hands(arrived):
            super().sendall(self._session.output())
            arrived = super().recv(READ_SIZE)
            if not arrived:
                raise ConnectionResetError("hung up on in the handshake")
        super().sendall(self._session.output())

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send some of the bytes; return how many. At 0 the same bytes have to be sent again, as with OpenSSL."""
        if not self._output:
            record = bytes(memoryview(data)[:RECORD])
            self._output += self._session.write(record)
            self._taken = len(record)
        del self._output[: super().send(self._output, flags)]
        return 0 if self._output else self._taken

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        """Send all bytes."""
        left = memoryview(data)
        while left:
            left = left[self.send(left, flags) :]

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return what has arrived, perhaps a little more than `bufsize`, waiting for a record; nothing at the end."""
        while True:
            arrived = super().recv(bufsize, flags)
            found = self._session.read(arrived)
            if found or not arrived:
                return found


class TlsAddress(Address):
    """An address at which clients speak TLS."""

    __slots__ = ()

    @property
    def url(self) -> str:
        """The AMQP URL, for user guest."""
        return f"amqps://guest:guest@{self.host}:{self.port}/"

    def secured(self, connected: socket.socket) -> socket.socket:
        """Return the socket with TLS on it."""
        return TlsSocket(connected)
