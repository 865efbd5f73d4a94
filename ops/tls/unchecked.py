"""The TLS context of a client that takes any certificate: it only wants to see it, or whether the node answers."""

from __future__ import annotations

import ssl


def unchecked() -> ssl.SSLContext:
    """Return a context whose sessions protect nothing from an attacker between client and server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
