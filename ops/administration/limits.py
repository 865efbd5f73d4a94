"""`penstock vhost set-limits`, `penstock user list-limits` and so on: limits on numbers of resources."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.administration.node import AsJson, ask, show
from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

if TYPE_CHECKING:
    from router.model.resource_limits import Scope

Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the vhost or user", show_default=False)]
Limits = Annotated[
    str,
    typer.Argument(
        metavar="LIMITS",
        help='JSON, such as {"max-connections": 256, "max-queues": 1024}; -1 means unlimited',
        show_default=False,
    ),
]
Limit = Annotated[str, typer.Argument(metavar="LIMIT", help="one limit, such as max-connections, or all")]
Near = Annotated[bool, typer.Option("--near", help="only limits used to nine tenths or more")]
NEAR_PERCENT = 90
COLUMNS = ("name", "limit", "number", "used", "set")
SET, CLEAR, LIST = (
    "set-limits NAME '{\"max-connections\": 256}'",
    "clear-limits NAME max-connections",
    "list-limits --where limit=max-queues --sort used",
)
"""Examples."""


def add_commands(app: typer.Typer, scope: Scope) -> None:
    """Add the commands for the limits of vhosts, or of users."""

    @app.command(
        "set-limits", help=_help(scope, f"Set limits of a {scope}; limits that are not named stay as they are.", SET)
    )
    def set_(name: Name, limits: Limits, data: Data = None) -> None:
        set_limits(data, scope, name, limits)

    @app.command("clear-limits", help=_help(scope, "Clear limits: the defaults of the settings apply again.", CLEAR))
    def clear(name: Name, limit: Limit = "all", data: Data = None) -> None:
        clear_limits(data, scope, name, limit)

    @app.command("list-limits", help=_help(scope, f"List the limits of all {scope}s, and their use.", LIST))
    def list_(
        near: Near = False, where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False
    ) -> None:
        rows = [row for row in limits_of(data, scope) if not near or 100 * row["used"] >= NEAR_PERCENT * row["number"]]
        show(selected_rows(rows, where, sort), COLUMNS, as_json)


def _help(scope: Scope, summary: str, example: str) -> str:
    return f"{summary}\n\nExample: penstock {scope} {example}"


def set_limits(data: Path | None, scope: Scope, name: str, definition: str) -> None:
    """Set limits, in rabbitmqctl's form: {"max-connections": 10}. CommandError if the definition is malformed."""
    try:
        limits = json.loads(definition)
    except ValueError as error:
        raise CommandError(f"limits must be JSON, such as '{{\"max-connections\": 10}}': {error}") from None
    if not isinstance(limits, dict):
        raise CommandError("limits must be a JSON object, such as '{\"max-connections\": 10}'")
    ask(data, "limits_set", scope=scope, name=name, limits=limits)
    print(f"limits of {scope} '{name}' set")


def clear_limits(data: Path | None, scope: Scope, name: str, limit: str) -> None:
    """Clear one limit of a vhost or user, or `all`."""
    ask(data, "limits_clear", scope=scope, name=name, limit=None if limit == "all" else limit)
    print(f"limits of {scope} '{name}' cleared")


def limits_of(data: Path | None, scope: Scope) -> list[dict[str, Any]]:
    """Return limits and their use: the router counts declared resources, acceptors count connections and channels."""
    used: Counter[tuple[str, str, str]] = Counter()
    for each in Processes(data).ask_acceptors("headcount"):
        used[each["whose"], each["name"], each["limit"]] += each["used"]
    return [_row(row, used[scope, row["name"], row["limit"]]) for row in ask(data, "limits_list", scope=scope)]


def _row(row: dict[str, Any], counted: int) -> dict[str, Any]:
    return {**row, "used": counted if row["used"] is None else row["used"], "set": "yes" if row["set"] else "no"}
