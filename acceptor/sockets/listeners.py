"""All listeners of one acceptor: the plain one if it is on, and those of the settings, with and without TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.sockets.arrivals import Arrivals
from acceptor.sockets.client_protocol import ClientProtocol
from acceptor.sockets.listener import Listener
from acceptor.sockets.proxied import ProxiedProtocol
from acceptor.sockets.sockets import Sockets
from penstock.settings.listeners import ListenerSettings

if TYPE_CHECKING:
    from acceptor.sockets.tls_protocol import TlsProtocol
    from acceptor.sockets.tls_sockets import TlsSockets


class Listeners:
    """`descriptors` are those of the plain listener and of the further ones, in the order of their settings. TlsError
    if one with TLS cannot serve.
    """

    def __init__(
        self,
        sockets: Sockets[ClientProtocol],
        settings: Mapping[str, ListenerSettings],
        descriptors: Sequence[int],
        stands_back: Callable[[], bool],
    ) -> None:
        self._sockets = sockets
        self._arrivals = Arrivals(sockets, sockets.state.settings.amqp.handshake_timeout)
        self._tls = self._make_tls(settings)
        plain = [self._plain] if sockets.state.settings.plain else []
        makers = [*plain, *(self._maker(name, each) for name, each in settings.items())]
        refusers = [*(None for _ in plain), *(self._refuser(name, each) for name, each in settings.items())]
        self._all = [
            Listener(sockets.loop, descriptor, maker, stands_back, refuses)
            for descriptor, maker, refuses in zip(descriptors, makers, refusers, strict=True)
        ]
        self.closed = False

    def start(self, receive_buffer: int) -> None:
        """Listen, unless that has been done, or is over. Each client's kernel receive buffer is `receive_buffer` bytes;
        0: the kernel's default.
        """
        for listener in self._all:
            if not (listener.started or self.closed):
                listener.start(receive_buffer)

    def close(self) -> None:
        """Accept no more clients."""
        self.closed = True
        for listener in self._all:
            listener.close()

    def hang_up_on_arriving(self) -> None:
        """Hang up on clients whose connections have not begun."""
        self._arrivals.close()

    def tick(self) -> None:
        """Enforce deadlines, and look after certificates; called once a second."""
        self._arrivals.tick()
        if self._tls is not None:
            self._tls.tick()

    def expiring(self) -> list[dict[str, Any]]:
        """Log certificates that expire soon, or have expired; return the facts of their events."""
        return [] if self._tls is None else self._tls.expiring()

    def reload(self) -> None:
        """Load the certificates again, as an operator asks for it."""
        if self._tls is not None:
            self._tls.reload()

    def certificates(self) -> list[dict[str, Any]]:
        """Return the certificates that are served (`acceptor.questions`)."""
        return [] if self._tls is None else self._tls.report()

    def _make_tls(self, settings: Mapping[str, ListenerSettings]) -> TlsSockets | None:
        if not any(each.is_tls for each in settings.values()):
            return None
        from acceptor.sockets.tls_sockets import TlsSockets  # not at the top: see there

        return TlsSockets(self._sockets, self._arrivals, settings)

    def _maker(self, name: str, settings: ListenerSettings) -> Callable[[], asyncio.BaseProtocol]:
        make: Callable[[], ClientProtocol | TlsProtocol] = self._plain
        if settings.is_tls and self._tls is not None:
            make = self._tls.maker(name)
        trusted = settings.proxy_protocol
        return partial(ProxiedProtocol, self._sockets, self._arrivals, name, trusted, make) if trusted else make

    def _refuser(self, name: str, settings: ListenerSettings) -> Callable[[str], bool] | None:
        """Return what refuses hosts before they have sent anything; behind a proxy these are not known yet."""
        if self._tls is None or not settings.is_tls or settings.proxy_protocol:
            return None
        return self._tls.refuser(name)

    def _plain(self) -> ClientProtocol:
        return ClientProtocol(self._sockets)
