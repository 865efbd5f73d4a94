"""`penstock exchange` and `penstock binding`: what publishes go to, and by which keys."""

from __future__ import annotations

import typer

from ops.administration.node import AsJson, ask, show_rows
from ops.administration.permission import OneVhost
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(no_args_is_help=True)
bindings = typer.Typer(no_args_is_help=True)

COLUMNS = ("vhost", "name", "type", "durable", "auto_delete", "internal", "alternate", "policy", "arguments")
BINDING_COLUMNS = ("vhost", "source", "destination", "key", "arguments")


@app.command("list")
def list_(
    vhost: OneVhost = None, where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List exchanges, the predeclared ones included.

    Example: penstock exchange list --vhost orders
    """
    found = ask(data, "exchange_list", vhost=vhost)
    show_rows(selected_rows(found, where, sort), COLUMNS, _row, "no exchanges", as_json)


@bindings.command("list")
def list_bindings(
    vhost: OneVhost = None, where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List bindings. That of each queue to the default exchange is implied.

    Example: penstock binding list --vhost orders
    """
    found = ask(data, "binding_list", vhost=vhost)
    show_rows(selected_rows(found, where, sort), BINDING_COLUMNS, _binding_row, "no bindings", as_json)


def _row(exchange: dict[str, object]) -> dict[str, object]:
    return {column: "" if exchange[column] is None else exchange[column] for column in COLUMNS}


def _binding_row(binding: dict[str, object]) -> dict[str, object]:
    to_exchange = binding["kind"] == "exchange"
    return binding | {"destination": f"exchange {binding['destination']}" if to_exchange else binding["destination"]}
