"""Notices, in the log and as events, of certificates that expire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.node.logs import get_logger
from penstock.text.durations import shown
from penstock.tls.expiry import SOON_SECONDS

if TYPE_CHECKING:
    from penstock.tls.certificates import Certificate

log = get_logger()

AGAIN_SECONDS = 86400.0
"""How often it is said that a certificate expires soon, or has expired."""
EVENTS_VHOST = "/"
"""The vhost whose `amq.flow` gets events that concern the node."""


class ExpiryNotices:
    """The notices about the certificates of one listener, each given once a day."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._said: dict[Path, tuple[str, datetime]] = {}

    def forget(self) -> None:
        """Begin anew, with other certificates."""
        self._said.clear()

    def due(self, certificates: Sequence[Certificate], now: datetime) -> list[dict[str, Any]]:
        """Log certificates that expire soon, or have expired, once a day each; return the facts of their events
        (`penstock.flow.flow_events`).
        """
        return [self._say(each, now) for each in certificates if self._is_due(each, now)]

    def _is_due(self, certificate: Certificate, now: datetime) -> bool:
        left = certificate.seconds_left(now)
        event, at = self._said.get(certificate.path, ("", now))
        is_new = event != _event(left) or (now - at).total_seconds() >= AGAIN_SECONDS
        return left <= SOON_SECONDS and is_new

    def _say(self, certificate: Certificate, now: datetime) -> dict[str, Any]:
        left = certificate.seconds_left(now)
        event = _event(left)
        self._said[certificate.path] = event, now
        about = {
            "certificate": str(certificate.path), "subject": certificate.subject,
            "expires": certificate.not_after.isoformat(),
        }  # fmt: skip
        what = "certificate expires soon" if left > 0 else "certificate has expired"
        log.warning(what, listener=self._listener, **about, left=shown(max(left, 0.0)))
        where = {"event": event, "vhost": EVENTS_VHOST, "queue": self._listener, "of": "listener"}
        return {**where, **about, "seconds": round(abs(left))}


def _event(left: float) -> str:
    return "certificate_expiring" if left > 0 else "certificate_expired"
