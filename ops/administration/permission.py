"""`penstock permission`: the permissions of users in vhosts."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.administration.node import AsJson, ask, show
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(
    no_args_is_help=True,
)

User = Annotated[str, typer.Argument(metavar="USER", help="the user", show_default=False)]
Vhost = Annotated[str, typer.Option("--vhost", metavar="VHOST", help="the vhost")]
OneUser = Annotated[str | None, typer.Option("--user", metavar="USER", help="only this user's", show_default=False)]
OneVhost = Annotated[
    str | None, typer.Option("--vhost", metavar="VHOST", help="only those in this vhost", show_default=False)
]


def pattern(what: str) -> object:
    """Return the argument for one of a user's permissions."""
    return typer.Argument(
        metavar=what.upper(), help=f"regular expression: what the user may {what}", show_default=False
    )


@app.command("set")
def set_(
    user: User,
    configure: Annotated[str, pattern("configure")],
    write: Annotated[str, pattern("write")],
    read: Annotated[str, pattern("read")],
    vhost: Vhost = "/",
    data: Data = None,
) -> None:
    """Let a user into a vhost. Regular expressions match anywhere in a name unless anchored; '' allows nothing.

    Example: penstock permission set ann '^ann' '.*' '.*' --vhost eu
    """
    ask(data, "permission_set", user=user, vhost=vhost, configure=configure, write=write, read=read)
    print(f"permissions of user '{user}' in vhost '{vhost}' set")


@app.command()
def delete(user: User, vhost: Vhost = "/", data: Data = None) -> None:
    """Revoke a user's access to a vhost. Open connections stay, but may do nothing any more.

    Example: penstock permission delete ann --vhost eu
    """
    ask(data, "permission_delete", user=user, vhost=vhost)
    print(f"permissions of user '{user}' in vhost '{vhost}' deleted")


@app.command("list")
def list_(
    user: OneUser = None,
    vhost: OneVhost = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the permissions.

    Example: penstock permission list --user ann
    """
    found = ask(data, "permission_list", user=user, vhost=vhost)
    show(selected_rows(found, where, sort), ("vhost", "user", "configure", "write", "read"), as_json)
