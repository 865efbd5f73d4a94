"""The certificate of the HTTP interface, which may be replaced while it serves."""

from __future__ import annotations

import os
import ssl

from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.tls.contexts import inner_contexts
from penstock.tls.errors import TlsError

log = get_logger()

LISTENER = "http"
"""What logs and lists call it, among the listeners."""


class ServedCertificate:
    """The certificate of all ports. TlsError if its files cannot be used."""

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        self._signature = self._sign()
        (self._inner,) = inner_contexts(settings)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self._inner.context

    def refresh(self, *, asked: bool = False) -> None:
        """Load the files again if they have changed, or if an operator has asked. Files that cannot be used are logged,
        and the old certificate serves on.
        """
        signature = self._sign()
        if signature == self._signature and not asked:
            return
        self._signature = signature
        try:
            (self._inner,) = inner_contexts(self._settings)
        except TlsError as error:
            log.error("certificates cannot be replaced, the old ones serve on", listener=LISTENER, problem=str(error))
            return
        certificate = self._inner.certificate
        log.info(
            "certificates loaded", listener=LISTENER,
            certificates={str(certificate.path): certificate.not_after.isoformat()},
        )  # fmt: skip

    def _sign(self) -> tuple[tuple[int, int, int], ...]:
        """Return the inode, size and time of modification of each file; zeros for one that is not there."""
        found = []
        for path in (*self._settings.certificates, *self._settings.keys):
            try:
                status = os.stat(path)
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)
