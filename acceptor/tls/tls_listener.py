"""A listener with TLS: its certificates, which may be replaced while it serves."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.tls.certificates import Certificate
from penstock.tls.contexts import choose, inner_contexts, outer_context
from penstock.tls.errors import TlsError, unreadable
from penstock.tls.expiry_notices import ExpiryNotices
from penstock.tls.served_files import ServedFiles

log = get_logger()


class TlsListener:
    """The TLS of one listener, in one acceptor. TlsError if its files cannot be used."""

    def __init__(self, name: str, settings: ListenerSettings, outer: ssl.SSLContext) -> None:
        """`outer` comes from the process from which the acceptor is forked (`penstock.tls.contexts`)."""
        self.name = name
        self.settings = settings
        self._served_files = ServedFiles(self._files())
        self._notices = ExpiryNotices(name)
        self._inners = inner_contexts(settings)
        self._authorities = self._read_authorities()
        self._outer = outer
        self._outer.sni_callback = self._named

    @property
    def certificates(self) -> list[Certificate]:
        """The certificates that it serves."""
        return [inner.certificate for inner in self._inners]

    @property
    def context(self) -> ssl.SSLContext:
        """The context with which a connection begins."""
        return self._outer

    def refresh(self, *, asked: bool = False) -> None:
        """Load the files again if they have changed, or if an operator has asked. Files that cannot be used are logged,
        and what was loaded serves on.
        """
        if not (self._served_files.have_changed() or asked):
            return
        try:
            inners = inner_contexts(self.settings)
            authorities = self._read_authorities()
            outer = self._outer if authorities == self._authorities else outer_context(self.settings)
        except TlsError as error:
            log.error("certificates cannot be replaced, the old ones serve on", listener=self.name, problem=str(error))
            return
        self._inners, self._authorities, self._outer = inners, authorities, outer
        self._outer.sni_callback = self._named
        self._notices.forget()
        log.info(
            "certificates loaded", listener=self.name,
            certificates={str(each.path): each.not_after.isoformat() for each in self.certificates},
        )  # fmt: skip

    def expiring(self, now: datetime) -> list[dict[str, Any]]:
        """Log certificates that expire soon, or have expired, once a day each; return the facts of their events
        (`penstock.flow.flow_events`).
        """
        return self._notices.due(self.certificates, now)

    def _named(self, sslobject: ssl.SSLObject | ssl.SSLSocket, name: str | None, outer: ssl.SSLContext) -> None:
        """The client has named a host, or (None) has not: give the connection the certificate for it."""
        sslobject.context = choose(self._inners, name).context

    def _files(self) -> list[Path]:
        settings = self.settings
        authorities = [] if settings.client_authorities is None else [settings.client_authorities]
        return [*settings.certificates, *settings.keys, *authorities]

    def _read_authorities(self) -> bytes:
        if self.settings.client_authorities is None:
            return b""
        try:
            return self.settings.client_authorities.read_bytes()
        except OSError as error:
            raise unreadable("client_authorities", self.settings.client_authorities, error) from None
