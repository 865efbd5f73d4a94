"""`penstock vhost`: virtual hosts."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.administration import limits
from ops.administration.node import AsJson, ask, show
from ops.naming import Data

app = typer.Typer(
    help="Virtual hosts of a running node: separate exchanges, queues and permissions.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="VHOST", help="name of the vhost", show_default=False)]


@app.command()
def add(name: Name, data: Data = None) -> None:
    """Add a vhost with its predeclared exchanges. No user may use it until permissions are set."""
    new = ask(data, "vhost_add", name=name)
    print(f"vhost '{name}' {'added' if new else 'exists already'}")


@app.command()
def delete(name: Name, data: Data = None) -> None:
    """Delete a vhost with its queues, messages and permissions; its connections are closed."""
    ask(data, "vhost_delete", name=name)
    print(f"vhost '{name}' deleted")


@app.command("list")
def list_(data: Data = None, as_json: AsJson = False) -> None:
    """List the vhosts."""
    show(ask(data, "vhost_list"), ("name", "queues", "exchanges"), as_json)


limits.add_commands(app, "vhost")
