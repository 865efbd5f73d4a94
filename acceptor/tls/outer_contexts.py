"""The outer contexts of a node's listeners. They are made in the process from which acceptors are forked, so that all
acceptors, and their successors, have the same keys of session tickets.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from penstock.node.logs import get_logger
from penstock.settings.listeners import ListenerSettings
from penstock.tls.contexts import outer_context
from penstock.tls.errors import TlsError

OUTER: dict[str, ssl.SSLContext] = {}
"""By name of the listener. State of the process, which forked ones inherit."""

log = get_logger()


def prepare(listeners: Mapping[str, ListenerSettings]) -> None:
    """Make the contexts of listeners with TLS. For one whose settings are wrong there is none: the acceptors say so."""
    for name, settings in listeners.items():
        if settings.is_tls:
            try:
                OUTER[name] = outer_context(settings)
            except TlsError as error:
                log.warning("sessions of TLS cannot be shared", listener=name, problem=str(error))
