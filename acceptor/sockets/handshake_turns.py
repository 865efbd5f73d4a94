"""The turns of TLS handshakes at one acceptor: one each turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from acceptor.tls.handshakes import Handshakes
from acceptor.tls.tls_stage import TlsStage

if TYPE_CHECKING:
    from acceptor.sockets.client_protocol import ClientProtocol
    from acceptor.sockets.sockets import Sockets


class ShakesHands(Protocol):
    """The socket of a client whose handshake is not complete."""

    host: str
    stage: TlsStage

    def turn(self) -> None:
        """Make the costly step of the handshake."""
        ...


class HandshakeTurns:
    """Gives turns as `Handshakes` decides."""

    def __init__(self, sockets: Sockets[ClientProtocol]) -> None:
        self._sockets = sockets
        self._handshakes: Handshakes[ShakesHands] = Handshakes()
        self._timer: asyncio.Handle | None = None

    def ask(self, protocol: ShakesHands) -> bool:
        """Have a client wait for its turn; False if too many wait."""
        if not self._handshakes.ask(protocol.host, protocol):
            return False
        self._wake()
        return True

    def is_full(self, host: str) -> bool:
        """Whether a client of this host would be refused."""
        return self._handshakes.is_full(host)

    def took(self, seconds: float) -> None:
        """A step of a handshake has taken so long."""
        self._handshakes.took(seconds, self._sockets.loop.time())

    def left(self, protocol: ShakesHands) -> None:
        """A client's handshake is complete, or the client has gone, as its stage says."""
        if protocol.stage is TlsStage.WAITING:
            self._handshakes.forget(protocol.host, protocol)
        elif protocol.stage is not TlsStage.HELLO:
            self._handshakes.over(protocol.host)
            self._wake()

    def _give_turn(self) -> None:
        self._timer = None
        now = self._sockets.loop.time()
        self._handshakes.busy = self._sockets.last_read
        protocol = self._handshakes.next(now)
        try:
            if protocol is not None:
                protocol.turn()
        finally:
            if protocol is not None or self._handshakes.seconds(now):
                self._wake(self._handshakes.seconds(now))

    def _wake(self, seconds: float = 0.0) -> None:
        """Give a turn later, if one may be due then; a handshake that ends makes room for others."""
        loop = self._sockets.loop
        if self._handshakes and self._timer is None:
            self._timer = loop.call_later(seconds, self._give_turn) if seconds else loop.call_soon(self._give_turn)
