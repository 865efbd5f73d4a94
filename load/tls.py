"""TLS of the clients in Python: version 1.3 only, so that every broker is measured with the same one."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path


@cache
def client_context(authority: Path | None) -> ssl.SSLContext:
    """Return the context of clients. A broker's certificate is verified only with a file of authorities. OSError if the
    file has none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(authority)
    return context
