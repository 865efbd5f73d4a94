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
    """Return the listeners, the plain one first if it is on: name, address, what clients need, and the certificates
    with their seconds left; None where a file cannot be read.
    """
    plain = {
        "name": "", "address": show(node.host, node.port), "tls": False, "client_certificates": "none",
        "proxied": False, "certificates": [],
    }  # fmt: skip
    return [*([plain] if node.settings["plain"] else []), *(_further(node, name) for name in node.listeners)]


def http_ports(node: Running) -> list[dict[str, Any]]:
    """Return the ports of the HTTP interface in the same form: "api", with the console, and "metrics"."""
    settings = node.settings["http"]
    path = settings["certificate"]
    facts = {"tls": path is not None, "client_certificates": "none", "proxied": False, "certificates": _files([path])}
    return [{"name": name, "address": show(*place), **facts} for name, place in node.http.items()]


def described(listener: dict[str, Any]) -> str:
    """Return where a listener serves, in words."""
    return f"{listener['address']}{' with TLS' if listener['tls'] else ''}"


def _further(node: Running, name: str) -> dict[str, Any]:
    settings = node.settings["listeners"][name]
    paths = settings["certificates"]
    return {
        "name": name,
        "address": show(*node.listeners[name]),
        "tls": bool(paths),
        "client_certificates": settings["client_certificates"],
        "proxied": bool(settings["proxy_protocol"]),
        "certificates": _files(paths),
    }


def _files(paths: list[str | None]) -> list[dict[str, Any]]:
    return [{"file": path, "seconds_left": _seconds_left(Path(path))} for path in paths if path is not None]


def expiring(found: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return the files of certificates that expire soon, each once, with their seconds left; negative for those that
    have.
    """
    files = {
        each["file"]: each["seconds_left"]
        for listener in found
        for each in listener["certificates"]
        if each["seconds_left"] is not None and each["seconds_left"] < SOON_SECONDS
    }
    return list(files.items())


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
