"""The listeners of a running node, with the certificates in the files of those with TLS.

The files are read as they are now; what an acceptor serves is in `penstock tls list`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ops.port import show
from ops.running import Running
from penstock.text.durations import shown
from penstock.tls.expiry import SOON_SECONDS


def listeners(node: Running) -> list[dict[str, Any]]:
    """Return the listeners, the plain one first: name, address, and the certificates with their seconds left; None
    where a file cannot be read.
    """
    found: list[dict[str, Any]] = [
        {"name": "", "address": show(node.host, node.port), "tls": False, "certificates": []}
    ]  # fmt: skip
    for name, (host, port) in node.listeners.items():
        paths = node.settings["listeners"][name]["certificates"]
        certificates = [{"file": path, "seconds_left": _seconds_left(Path(path))} for path in paths]
        found.append({"name": name, "address": show(host, port), "tls": bool(paths), "certificates": certificates})
    return found


def expiring(found: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return the files of certificates that expire soon, with their seconds left; negative for those that have."""
    return [
        (each["file"], each["seconds_left"])
        for listener in found
        for each in listener["certificates"]
        if each["seconds_left"] is not None and each["seconds_left"] < SOON_SECONDS
    ]


def when(seconds_left: float) -> str:
    """Return when a certificate expires, in words."""
    return f"expires in {shown(seconds_left)}" if seconds_left > 0 else "has expired"


def _seconds_left(path: Path) -> int | None:
    from penstock.tls.certificates import now, read_certificate  # not at the top: takes longer than most answers
    from penstock.tls.errors import TlsError

    try:
        return round(read_certificate(path).seconds_left(now()))
    except TlsError:
        return None
