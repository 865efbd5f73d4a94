"""`penstock vhost`: virtual hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from ops.administration import limits
from ops.administration.input import confirm, counted
from ops.administration.node import AsJson, ask, show
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(no_args_is_help=True)

DEFAULT = "/"
Name = Annotated[str, typer.Argument(metavar="VHOST", help="name of the vhost", show_default=False)]


@app.command()
def add(name: Name, data: Data = None) -> None:
    """Add a vhost with its predeclared exchanges. No user may use it until permissions are set.

    Example: penstock vhost add eu
    """
    new = ask(data, "vhost_add", name=name)
    print(f"vhost '{name}' {'added' if new else 'exists already'}")


@app.command()
def delete(
    name: Name,
    data: Data = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask, whatever it has")] = False,
) -> None:
    """Delete a vhost with its queues, messages and permissions; its connections are closed.

    It asks first if the vhost has queues, or is the default one.

    Example: penstock vhost delete eu --yes
    """
    if not yes:
        confirm_deletion(name, ask(data, "vhost_list"))
    ask(data, "vhost_delete", name=name)
    print(f"vhost '{name}' deleted")


def confirm_deletion(name: str, vhosts: Sequence[Mapping[str, Any]]) -> None:
    """Ask before a vhost is deleted that has queues, or is the default one. CommandError unless the answer is yes."""
    queues = sum(vhost["queues"] for vhost in vhosts if vhost["name"] == name)
    if not queues and name != DEFAULT:
        return
    contents = f"{counted(queues, 'queue')} and all messages"
    confirm(f"Delete vhost '{name}' with {contents}?", f"vhost '{name}' is not deleted")


@app.command("list")
def list_(where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the vhosts.

    Example: penstock vhost list --sort queues
    """
    show(selected_rows(ask(data, "vhost_list"), where, sort), ("name", "queues", "exchanges"), as_json)


limits.add_commands(app, "vhost")
