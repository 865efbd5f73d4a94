"""`penstock channel`: the channels of clients."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ops.administration.node import AsJson, show_rows
from ops.administration.permission import OneUser, OneVhost
from ops.administration.processes import Facts, Processes, selected
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("connection", "channel", "user", "vhost", "mode", "consumers", "unacked", "prefetch", "held")

OneConnection = Annotated[
    str | None,
    typer.Option("--connection", metavar="ID", help="only of this connection, as in its list", show_default=False),
]


@app.command("list")
def list_(
    connection: OneConnection = None,
    user: OneUser = None,
    vhost: OneVhost = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List channels with their modes and unacked messages.

    Prefetch is that of each consumer started from now on, and after a slash that of all consumers of the channel.

    Example: penstock channel list --user orders --sort unacked
    """
    found = selected(Processes(data).ask_acceptors("channels"), connection=connection, user=user, vhost=vhost)
    show_rows(selected_rows(found, where, sort), COLUMNS, _row, "no channels", as_json)


def _row(channel: Facts) -> dict[str, Any]:
    each, shared = channel["prefetch"] or "unlimited", channel["shared_prefetch"]
    return {
        **channel,
        "prefetch": f"{each}/{shared}" if shared else str(each),
        "held": "yes" if channel["held"] else "no",
    }
