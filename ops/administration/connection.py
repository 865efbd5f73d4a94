"""`penstock connection`: the connections of clients."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ops.administration.node import AsJson, show_rows
from ops.administration.permission import OneUser, OneVhost
from ops.administration.processes import Facts, Processes, selected
from ops.errors import CommandError
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows
from penstock.text.durations import shown

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    "connection", "user", "vhost", "held", "unacked", "consumers", "channels", "open_for", "client", "peer", "read",
    "tls",
)  # fmt: skip
CLOSED = "closed by an operator"


@app.command("list")
def list_(
    user: OneUser = None,
    vhost: OneVhost = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List connections with their users, unacked messages and held channels.

    Example: penstock connection list --user orders --where 'held_channels>0' --sort unacked
    """
    found = selected(Processes(data).ask_acceptors("connections"), user=user, vhost=vhost)
    show_rows(selected_rows(found, where, sort), COLUMNS, _row, "no connections", as_json)


@app.command()
def close(
    connection: Annotated[
        str | None, typer.Argument(metavar="[CONNECTION]", help="its id, as in the list", show_default=False)
    ] = None,
    user: OneUser = None,
    vhost: OneVhost = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="told to the client")] = CLOSED,
    data: Data = None,
) -> None:
    """Close one connection, or all of a user, to a vhost, or both: its clients get 320 CONNECTION_FORCED.

    Example: penstock connection close 0.1.17 --reason "deploy the new version"
    """
    if connection is None and user is None and vhost is None:
        raise CommandError("name a connection, --user or --vhost")
    processes = Processes(data)
    found = selected(processes.ask_acceptors("connections"), connection=connection, user=user, vhost=vhost)
    if connection is not None and not found:
        raise CommandError(f"there is no connection {connection}")
    closed = sum(
        processes.ask("acceptor", acceptor_of(each), "close", connection=each["connection"], reason=reason)
        for each in found
    )
    print("1 connection closed" if closed == 1 else f"{closed} connections closed")


def acceptor_of(connection: Facts) -> int:
    """Return the index of a connection's acceptor: its id is ACCEPTOR.INCARNATION.NUMBER."""
    return int(connection["connection"].partition(".")[0])


def _row(connection: Facts) -> dict[str, Any]:
    return {
        **connection,
        "open_for": shown(connection["open_seconds"]),
        "held": f"{connection['held_channels']} of {connection['channels']}" if connection["held_channels"] else "-",
        "read": "yes" if connection["read"] else "no",
    }
