"""The sockets of clients whose connections have not begun: a PROXY header or a TLS handshake is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from acceptor.sockets.client_protocol import ClientProtocol
    from acceptor.sockets.sockets import Sockets


class Arriving(Protocol):
    """Such a socket."""

    def late(self) -> None:
        """Hang up, as the time is over."""
        ...

    def end(self) -> None:
        """Hang up."""
        ...


class Arrivals:
    """Hangs up on clients that take longer than `timeout` seconds."""

    def __init__(self, sockets: Sockets[ClientProtocol], timeout: float) -> None:
        self._sockets = sockets
        self._timeout = timeout
        self._deadlines: dict[Arriving, float] = {}

    def arrived(self, protocol: Arriving) -> None:
        """A client has connected; its time runs."""
        self._deadlines[protocol] = self._sockets.loop.time() + self._timeout
        self._sockets.arriving = len(self._deadlines)

    def left(self, protocol: Arriving) -> bool:
        """A client's connection begins, or the client has gone. Return False if it had left before."""
        left = self._deadlines.pop(protocol, None) is not None
        self._sockets.arriving = len(self._deadlines)
        return left

    def tick(self) -> None:
        """Hang up on clients whose time is over; called once a second."""
        now = self._sockets.loop.time()
        for protocol in [each for each, deadline in self._deadlines.items() if deadline <= now]:
            protocol.late()

    def close(self) -> None:
        """Hang up on all."""
        for protocol in list(self._deadlines):
            protocol.end()
