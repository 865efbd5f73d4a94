"""`penstock user`: users, their passwords and tags."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ops.administration import limits
from ops.administration.definitions import File, import_file
from ops.administration.node import AsJson, ask, show
from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows
from penstock.control import passwords
from penstock.text.durations import shown

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="USER", help="the name to log in with", show_default=False)]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="TAG",
        help="administrator, monitoring, policymaker, management, impersonator or none; may be repeated",
        show_default=False,
    ),
]


@app.command()
def add(name: Name, tags: Tags = None, data: Data = None) -> None:
    """Add a user. The password is prompted for, or read from standard input: one line.

    A new user may do nothing until permissions are set.

    Example: penstock user add ann --tag monitoring
    """
    ask(data, "user_add", name=name, password_hash=passwords.hashed(_password()), tags=_tags(tags or []))
    print(f"user '{name}' added")


@app.command()
def password(
    name: Name,
    none: Annotated[bool, typer.Option("--none", help="remove the password: none is accepted any more")] = False,
    data: Data = None,
) -> None:
    """Set a user's password, prompted for or read from standard input. Open connections stay.

    Example: penstock user password ann < password.txt
    """
    new = passwords.NONE if none else passwords.hashed(_password())
    ask(data, "user_set", name=name, password_hash=new, tags=None)
    print(f"password of user '{name}' {'removed' if none else 'set'}")


@app.command()
def tag(
    name: Name,
    tags: Annotated[list[str], typer.Argument(metavar="TAG…", help="all of them, or none", show_default=False)],
    data: Data = None,
) -> None:
    """Set a user's tags; tags that are not named are removed.

    Example: penstock user tag ann administrator
    """
    ask(data, "user_set", name=name, password_hash=None, tags=_tags(tags))
    print(f"tags of user '{name}' set")


@app.command()
def delete(name: Name, data: Data = None) -> None:
    """Delete a user with all permissions; open connections are closed.

    Example: penstock user delete ann
    """
    ask(data, "user_delete", name=name)
    print(f"user '{name}' deleted")


@app.command("list")
def list_(where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the users.

    Example: penstock user list --where tags=administrator
    """
    show(selected_rows(ask(data, "user_list"), where, sort), ("name", "tags", "password", "vhosts"), as_json)


@app.command()
def guesses(data: Data = None, as_json: AsJson = False) -> None:
    """List addresses and users whose passwords are not verified at present, because too many were wrong.

    Example: penstock user guesses --json
    """
    found = sorted(Processes(data).ask_acceptors("logins"), key=lambda each: -each["wrong"])
    show([{**each, "for": shown(each["seconds"])} for each in found], ("user", "address", "wrong", "for"), as_json)


@app.command("import")
def import_(file: File, data: Data = None) -> None:
    """Import only the users, vhosts and permissions of exported definitions, passwords included.

    All are imported or, if one is refused, none. Existing ones are replaced.

    Example: penstock user import definitions.json
    """
    import_file(data, file, None, ("vhosts", "users", "permissions", "topic_permissions"))


limits.add_commands(app, "user")


def _tags(tags: list[str]) -> list[str]:
    """Return the single tags; `none` stands for no tags."""
    given = [tag for each in tags for tag in each.replace(",", " ").split()]
    return [] if given == ["none"] else given


def _password() -> str:
    """Read a password; never from an argument, which all users of the machine can see. CommandError if it is empty."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise CommandError("a password is expected on standard input, and it cannot be empty")
    return given
