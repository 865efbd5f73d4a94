"""`penstock topic-permission`: the routing keys of topic exchanges that users may use."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.administration.node import AsJson, ask, show
from ops.administration.permission import OneUser, OneVhost, User, Vhost, pattern
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(
    no_args_is_help=True,
)


@app.command("set")
def set_(
    user: User,
    exchange: Annotated[str, typer.Argument(metavar="EXCHANGE", help="the topic exchange", show_default=False)],
    write: Annotated[str, pattern("write")],
    read: Annotated[str, pattern("read")],
    vhost: Vhost = "/",
    data: Data = None,
) -> None:
    """Limit a user's routing keys. In a regular expression {username} and {vhost} stand for those of the user.

    Example: penstock topic-permission set ann events '^eu' '.*' --vhost eu
    """
    ask(data, "topic_permission_set", user=user, vhost=vhost, exchange=exchange, write=write, read=read)
    print(f"topic permissions of user '{user}' for exchange '{exchange}' in vhost '{vhost}' set")


@app.command()
def delete(
    user: User,
    exchange: Annotated[
        str | None, typer.Argument(metavar="[EXCHANGE]", help="only those for this exchange", show_default=False)
    ] = None,
    vhost: Vhost = "/",
    data: Data = None,
) -> None:
    """Lift the limits on a user's routing keys in a vhost.

    Example: penstock topic-permission delete ann events --vhost eu
    """
    ask(data, "topic_permission_delete", user=user, vhost=vhost, exchange=exchange)
    print(f"topic permissions of user '{user}' in vhost '{vhost}' deleted")


@app.command("list")
def list_(
    user: OneUser = None,
    vhost: OneVhost = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the topic permissions.

    Example: penstock topic-permission list --user ann
    """
    found = ask(data, "topic_permission_list", user=user, vhost=vhost)
    show(selected_rows(found, where, sort), ("vhost", "user", "exchange", "write", "read"), as_json)
