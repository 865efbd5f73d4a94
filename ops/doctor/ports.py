"""Checks of the ports: whether they are free, and whether what listens there should be reachable from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.finding import Finding, advice, ok, problem
from ops.errors import StartError
from ops.port import bound, show
from penstock.settings import Settings
from penstock.settings.auth import is_here


def ports(settings: Settings, in_use: bool) -> Iterator[Finding]:
    """Check each port of a node, unless that runs, whatever its ports are."""
    for name, host, port, encrypted in _places(settings):
        yield _port(f"port {name}", host, port, encrypted, in_use)


def _places(settings: Settings) -> Iterator[tuple[str, str, int, bool]]:
    if settings.plain:
        yield "amqp", settings.host, settings.port, False
    for name, listener in settings.listeners.items():
        yield name, listener.host, listener.port, listener.is_tls
    if settings.http.enabled:
        secured = settings.http.certificate is not None
        yield "http", settings.http.host, settings.http.port, secured
        if settings.http.metrics:
            yield "metrics", settings.http.host, settings.http.metrics_port, secured


def _port(check: str, host: str, port: int, encrypted: bool, in_use: bool) -> Finding:
    where = show(host, port)
    if port and not in_use:
        try:
            with bound(host, port):
                pass
        except StartError as error:
            return problem(check, str(error), f"ss -ltnp 'sport = :{port}' names who has it; or another port")
    if not encrypted and not is_here(host):
        text = f"{where} is served without TLS to other machines: passwords and messages can be read on the way"
        return advice(check, text, "certificates (docs/tls.md), a proxy with TLS before it, or 127.0.0.1")
    return ok(check, f"{where}{', not tried while the node runs' if in_use else ''}")
