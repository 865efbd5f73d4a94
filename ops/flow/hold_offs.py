"""`penstock flow hold-offs`: users who are refused at their next connect, and how to readmit them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ops.administration.node import AsJson, ask, show_rows
from ops.administration.processes import Facts
from ops.errors import CommandError
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows
from penstock.text.durations import shown

app = typer.Typer()

COLUMNS = ("user", "host", "times", "left", "forgotten_in", "reason")
NOBODY = "no user is held off"

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="of this user", show_default=False)]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="from this address", show_default=False)]


@app.callback(invoke_without_command=True)
def hold_offs(
    context: typer.Context, where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List users who are or were held off: how often, for how much longer, when that is forgotten, and why.

    Example: penstock flow hold-offs --json
    """
    if context.invoked_subcommand is None:
        show_rows(selected_rows(ask(data, "flow_hold_offs"), where, sort), COLUMNS, _row, NOBODY, as_json)


@app.command()
def clear(user: User = None, host: Host = None, data: Data = None, as_json: AsJson = False) -> None:
    """Readmit users who are held off, and forget how often they were: all, or only a user, or from an address.

    Example: penstock flow hold-offs clear --user ann
    """
    found = ask(data, "flow_readmit", user=user, host=host)
    if not found and (user, host) != (None, None):
        raise CommandError("there is no such hold-off; `penstock flow hold-offs` lists them")
    show_rows(found, COLUMNS, _row, NOBODY, as_json)


def _row(hold_off: Facts) -> Facts:
    now = time.time()
    return {
        **hold_off,
        "left": shown(hold_off["until"] - now) if hold_off["until"] > now else "over",
        "forgotten_in": shown(max(hold_off["forget_at"] - now, 0)),
    }
