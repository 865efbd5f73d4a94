"""`penstock tls`: make certificates for development, show what a listener serves, check files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.administration.node import AsJson, show
from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.naming import Config, Data
from ops.operator_http import get
from penstock.settings.listeners import TLS_PORT
from penstock.settings.sources import read_configuration
from penstock.text.durations import shown

if TYPE_CHECKING:
    from penstock.tls.certificates import Certificate

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("listener", "certificate", "subject", "names", "expires", "left")


@app.command()
def make(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="directory of the files")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="host names and addresses of the server")
    ] = None,
    users: Annotated[
        list[str] | None, typer.Option("--client", metavar="USER", help="user of a client; may be repeated")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="how long they are valid")] = 365,
) -> None:
    """Make a test authority, and certificates of a server and of clients that it has issued.

    For development: the keys are not protected. An authority that the directory has already is used again. Each file of
    a server or a client has its certificate and its key.

    Example: penstock tls make certificates localhost 127.0.0.1 --client guest
    """
    from ops.tls.authority import CERTIFICATE, Authority

    valid = timedelta(days=days)
    try:
        authority = Authority.at(directory, valid)
        made = [authority.server(names or ["localhost", "127.0.0.1", "::1"], valid)]
        made += [authority.client(user, valid) for user in users or ()]
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot make certificates in {directory}: {error}") from None
    print(f"authority    {directory / CERTIFICATE}")
    print(f"server       {made[0]}")
    for path in made[1:]:
        print(f"client       {path}")


@app.command("show")
def show_(
    address: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="listener; the port is 5671 by default")],
    name: Annotated[str | None, typer.Option(help="host name to ask for, instead of HOST", metavar="NAME")] = None,
    authorities: Annotated[
        Path | None, typer.Option(help="authorities that a client would trust; default: the system's", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the certificate, version and cipher that a listener serves. Exit status 1 if a client would refuse it.

    Example: penstock tls show localhost:5671 --authorities certificates/authority.pem
    """
    from ops.tls.probe import probe
    from penstock.tls.errors import reason

    host, port = _address(address)
    try:
        found = probe(host, port, name or host, authorities)
    except OSError as error:
        raise CommandError(f"no TLS at {address}: {reason(error)}") from None
    row = {**_row("", found.certificate), "version": found.version, "cipher": found.cipher, "problem": found.problem}
    row.pop("listener")
    show([row], ("subject", "issuer", "names", "expires", "left", "version", "cipher", "problem"), as_json)
    if found.problem:
        raise typer.Exit(1)


@app.command("list")
def list_(data: Data = None, as_json: AsJson = False) -> None:
    """List the certificates that a running node serves, those of listeners and that of HTTP.

    Example: penstock tls list --json
    """
    processes = Processes(data)
    with_http = processes.node.settings["http"]["enabled"] and processes.node.settings["http"]["certificate"]
    found = get(data, "/api/certificates") if with_http else processes.command("certificates")
    rows = [{**each, "names": _joined(each["names"]), "left": _left(each["seconds_left"])} for each in found]
    show(rows, COLUMNS, as_json)


@app.command()
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Check the files of all listeners and of HTTP in a configuration. Exit status 2, with the reason, if one could
    not serve.

    Example: penstock tls check --config /etc/penstock.toml
    """
    from penstock.tls.contexts import inner_contexts, outer_context
    from penstock.tls.errors import TlsError

    rows = []
    configured = read_configuration(config).settings
    secured = {f"listeners.{name}": settings for name, settings in configured.listeners.items()}
    if configured.http.secured is not None:
        secured["http"] = configured.http.secured
    for name, settings in secured.items():
        if settings.is_tls:
            try:
                outer_context(settings)
                rows += [_row(name.removeprefix("listeners."), inner.certificate) for inner in inner_contexts(settings)]
            except TlsError as error:
                raise CommandError(f"{name}: {error}") from None
    show(rows, COLUMNS, as_json)


def _row(listener: str, certificate: Certificate) -> dict[str, object]:
    from penstock.tls.certificates import now

    seconds = certificate.seconds_left(now())
    return {
        "listener": listener,
        "certificate": str(certificate.path),
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "names": _joined(certificate.names),
        "expires": certificate.not_after.isoformat(),
        "left": _left(seconds),
    }


def _left(seconds: float) -> str:
    return shown(seconds) if seconds > 0 else "expired"


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)


def _address(text: str) -> tuple[str, int]:
    """Return the host and port of HOST, HOST:PORT, [HOST] or [HOST]:PORT. CommandError if it is none of them."""
    host, bracket, rest = text.removeprefix("[").partition("]") if text.startswith("[") else ("", "", "")
    if not bracket:
        host, colon, rest = text.partition(":")
        rest = colon + rest
    if not host or (rest and not (rest.startswith(":") and rest[1:].isdigit() and int(rest[1:]) < 2**16)):
        raise CommandError(f"'{text}' is no HOST[:PORT]")
    return host, int(rest[1:]) if rest else TLS_PORT
