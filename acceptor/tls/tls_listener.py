"""A listener with TLS: its certificates, which may be replaced while it serves."""

from __future__ import annotations

import os
import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.text.durations import shown
from penstock.tls.certificates import Certificate
from penstock.tls.contexts import choose, inner_contexts, outer_context
from penstock.tls.errors import TlsError, unreadable
from penstock.tls.expiry import SOON_SECONDS

log = get_logger()

AGAIN_SECONDS = 86400.0
"""How often it is said that a certificate expires soon, or has expired."""
EVENTS_VHOST = "/"
"""The vhost whose `amq.flow` gets events that concern the node."""

Signature = tuple[tuple[int, int, int], ...]
"""By file: its inode, size and time of modification (nanoseconds); zeros for one that is not there."""


class TlsListener:
    """The TLS of one listener, in one acceptor. TlsError if its files cannot be used."""

    def __init__(self, name: str, settings: ListenerSettings, outer: ssl.SSLContext) -> None:
        """`outer` comes from the process from which the acceptor is forked (`penstock.tls.contexts`)."""
        self.name = name
        self.settings = settings
        self._signature = self._sign()
        self._inners = inner_contexts(settings)
        self._authorities = self._read_authorities()
        self._said: dict[Path, tuple[str, datetime]] = {}
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
        signature = self._sign()
        if signature == self._signature and not asked:
            return
        self._signature = signature
        try:
            inners = inner_contexts(self.settings)
            authorities = self._read_authorities()
            outer = self._outer if authorities == self._authorities else outer_context(self.settings)
        except TlsError as error:
            log.error("certificates cannot be replaced, the old ones serve on", listener=self.name, problem=str(error))
            return
        self._inners, self._authorities, self._outer = inners, authorities, outer
        self._outer.sni_callback = self._named
        self._said.clear()
        log.info(
            "certificates loaded", listener=self.name,
            certificates={str(each.path): each.not_after.isoformat() for each in self.certificates},
        )  # fmt: skip

    def expiring(self, now: datetime) -> list[dict[str, Any]]:
        """Log certificates that expire soon, or have expired, once a day each; return the facts of their events
        (`penstock.flow.flow_events`).
        """
        return [self._expires(each, now) for each in self.certificates if self._is_to_be_said(each, now)]

    def _is_to_be_said(self, certificate: Certificate, now: datetime) -> bool:
        left = certificate.seconds_left(now)
        event, at = self._said.get(certificate.path, ("", now))
        is_new = event != _event(left) or (now - at).total_seconds() >= AGAIN_SECONDS
        return left <= SOON_SECONDS and is_new

    def _expires(self, certificate: Certificate, now: datetime) -> dict[str, Any]:
        left = certificate.seconds_left(now)
        event = _event(left)
        self._said[certificate.path] = event, now
        about = {
            "certificate": str(certificate.path), "subject": certificate.subject,
            "expires": certificate.not_after.isoformat(),
        }  # fmt: skip
        what = "certificate expires soon" if left > 0 else "certificate has expired"
        log.warning(what, listener=self.name, **about, left=shown(max(left, 0.0)))
        where = {"event": event, "vhost": EVENTS_VHOST, "queue": self.name, "of": "listener"}
        return {**where, **about, "seconds": round(abs(left))}

    def _named(self, sslobject: ssl.SSLObject | ssl.SSLSocket, name: str | None, outer: ssl.SSLContext) -> None:
        """The client has named a host, or (None) has not: give the connection the certificate for it."""
        sslobject.context = choose(self._inners, name).context

    def _files(self) -> list[Path]:
        settings = self.settings
        authorities = [] if settings.client_authorities is None else [settings.client_authorities]
        return [*settings.certificates, *settings.keys, *authorities]

    def _sign(self) -> Signature:
        return tuple(_signature_of(path) for path in self._files())

    def _read_authorities(self) -> bytes:
        if self.settings.client_authorities is None:
            return b""
        try:
            return self.settings.client_authorities.read_bytes()
        except OSError as error:
            raise unreadable("client_authorities", self.settings.client_authorities, error) from None


def _event(left: float) -> str:
    return "certificate_expiring" if left > 0 else "certificate_expired"


def _signature_of(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
