"""`penstock consumer`: the consumers of clients."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ops.administration.node import AsJson, show_rows
from ops.administration.permission import OneUser, OneVhost
from ops.administration.processes import Facts, Processes, selected
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("connection", "channel", "user", "vhost", "queue", "tag", "acks", "prefetch", "priority")

OneQueue = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="only of this queue", show_default=False)
]


@app.command("list")
def list_(
    queue: OneQueue = None,
    user: OneUser = None,
    vhost: OneVhost = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List consumers with their queues and prefetch.

    Example: penstock consumer list --vhost / --queue orders
    """
    found = selected(Processes(data).ask_acceptors("all_consumers"), queue=queue, user=user, vhost=vhost)
    show_rows(selected_rows(found, where, sort), COLUMNS, _row, "no consumers", as_json)


def _row(consumer: Facts) -> dict[str, Any]:
    return {
        **consumer,
        "acks": "no" if consumer["no_ack"] else "yes",
        "prefetch": consumer["prefetch"] or "unlimited",
    }
