"""`penstock serve`: run a node."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ops.compiled import refusal
from ops.errors import StartError
from ops.naming import Config, inherited
from ops.successor import Successor
from penstock.node import logs
from penstock.settings import Settings
from penstock.settings.sources import read_configuration


def _option(name: str, **more: Any) -> Any:
    """Return an option for the setting `name`, with the setting's description as its help."""
    return typer.Option(help=Settings.model_fields[name].description, show_default=False, **more)


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="set any setting by its dotted key; may be repeated", show_default=False
    ),
]
DataOption = Annotated[Path | None, _option("data", metavar="DIR", callback=inherited)]


def serve(
    config: Config = None,
    host: Annotated[str | None, _option("host")] = None,
    port: Annotated[int | None, _option("port")] = None,
    acceptors: Annotated[int | None, _option("acceptors")] = None,
    shards: Annotated[int | None, _option("shards")] = None,
    data: DataOption = None,
    log_level: Annotated[str | None, _option("log_level")] = None,
    assignments: Assignments = None,
) -> None:
    """Print one line, `penstock ready amqp=HOST:PORT pid=PID`, once the broker accepts connections; `amqps=` if its
    first listener has TLS. Settings come from the file, then from PENSTOCK_… variables, then from these options; later
    sources win.

    Example: penstock serve --data /var/lib/penstock --set flow.max_count=100000
    """
    flags = {"host": host, "port": port, "acceptors": acceptors, "shards": shards, "data": data, "log_level": log_level}
    read = partial(read_configuration, config, flags, assignments or ())
    successor = Successor.take()
    configuration = read() if successor is None else None
    if (reason := refusal()) is not None:
        raise StartError(reason)
    from ops import serve as run  # not at the top: it imports compiled modules

    if successor is not None:
        run.go_on(successor, read)
    elif configuration is not None:
        logs.configure(configuration.settings, "supervisor", 0)
        run.serve(configuration, read)
