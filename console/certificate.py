"""The certificate of the HTTP interface, which may be replaced while it serves."""

from __future__ import annotations

import ssl
from typing import Any

from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.tls import certificates
from penstock.tls.contexts import inner_contexts
from penstock.tls.errors import TlsError
from penstock.tls.expiry_notices import ExpiryNotices
from penstock.tls.served_files import ServedFiles

log = get_logger()

LISTENER = "http"
"""What logs and lists call it, among the listeners."""


class ServedCertificate:
    """The certificate of all ports. TlsError if its files cannot be used."""

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        self._files = ServedFiles((*settings.certificates, *settings.keys))
        self._notices = ExpiryNotices(LISTENER)
        (self._inner,) = inner_contexts(settings)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self._inner.context

    def refresh(self, *, asked: bool = False) -> None:
        """Load the files again if they have changed, or if an operator has asked. Files that cannot be used are logged,
        and the old certificate serves on.
        """
        if not (self._files.have_changed() or asked):
            return
        try:
            (self._inner,) = inner_contexts(self._settings)
        except TlsError as error:
            log.error("certificates cannot be replaced, the old ones serve on", listener=LISTENER, problem=str(error))
            return
        self._notices.forget()
        certificate = self._inner.certificate
        log.info(
            "certificates loaded", listener=LISTENER,
            certificates={str(certificate.path): certificate.not_after.isoformat()},
        )  # fmt: skip

    def expiring(self) -> list[dict[str, Any]]:
        """Log that it expires soon, or has expired, once a day; return the facts of the event."""
        return self._notices.due([self._inner.certificate], certificates.now())

    def report(self) -> dict[str, Any]:
        """Return its facts, as for a listener (`acceptor.questions`)."""
        return self._inner.certificate.facts(LISTENER, certificates.now())
