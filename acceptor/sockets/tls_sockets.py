"""The listeners with TLS of one acceptor.

Imported only where a listener has TLS: reading certificates takes a library of 12 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from acceptor.amqp.read_size import LARGE_READ_BYTES
from acceptor.clients.addresses import address_of
from acceptor.sockets.arrivals import Arrivals
from acceptor.sockets.client_protocol import ClientProtocol
from acceptor.sockets.handshake_turns import HandshakeTurns
from acceptor.sockets.sockets import Sockets
from acceptor.sockets.tls_protocol import TlsProtocol
from acceptor.tls.outer_contexts import OUTER
from acceptor.tls.tls_listener import TlsListener
from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.tls import certificates
from penstock.tls.contexts import outer_context
from penstock.tls.errors import TlsError

log = get_logger()


class TlsSockets:
    """TlsError, which names the listener, if one cannot serve."""

    def __init__(
        self, sockets: Sockets[ClientProtocol], arrivals: Arrivals, listeners: Mapping[str, ListenerSettings]
    ) -> None:
        self._sockets = sockets
        self._arrivals = arrivals
        self._turns = HandshakeTurns(sockets)
        self._listeners = {name: _load(name, settings) for name, settings in listeners.items() if settings.is_tls}
        self._refused: dict[str, int] = {}
        sockets.ciphertext = memoryview(bytearray(LARGE_READ_BYTES))

    def maker(self, name: str) -> Callable[[], TlsProtocol]:
        """Return the function that makes the protocol of a listener's client."""
        listener = self._listeners[name]
        return lambda: TlsProtocol(self._sockets, self._arrivals, self._turns, listener)

    def refuser(self, name: str) -> Callable[[str], bool]:
        """Return the function that says whether a listener refuses a client of a host, whose first message would be
        refused: in a storm, making its protocol would cost more than the handshakes do.
        """

        def refuses(host: str) -> bool:
            is_full = self._turns.is_full(address_of(host))
            if is_full:
                self._refused[name] = self._refused.get(name, 0) + 1
            return is_full

        return refuses

    def tick(self) -> None:
        """Look after the certificates, and log how many clients were refused; called once a second."""
        refused, self._refused = self._refused, {}
        for name, clients in refused.items():
            log.info("TLS handshakes refused", listener=name, clients=clients, reason="too many at once")
        for listener in self._listeners.values():
            listener.refresh()

    def expiring(self) -> list[dict[str, Any]]:
        """Log certificates that expire soon, or have expired; return the facts of their events."""
        now = certificates.now()
        return [facts for listener in self._listeners.values() for facts in listener.expiring(now)]

    def reload(self) -> None:
        """Load the certificates again, as an operator asks for it."""
        for listener in self._listeners.values():
            listener.refresh(asked=True)

    def report(self) -> list[dict[str, Any]]:
        """Return the certificates that are served (`acceptor.questions`)."""
        return [
            each.facts(name, certificates.now())
            for name, listener in self._listeners.items()
            for each in listener.certificates
        ]


def _load(name: str, settings: ListenerSettings) -> TlsListener:
    try:
        return TlsListener(name, settings, OUTER.get(name) or outer_context(settings))
    except TlsError as error:
        raise TlsError(f"listeners.{name}: {error}") from None
