"""`penstock status`, `penstock ping` and `penstock health`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import orjson
import typer

from ops.absence import exit_unless_running
from ops.naming import Config, Data, named_directory
from ops.selection import Sort, Where, selected_rows
from ops.status import address_of, collect, supervisor_of
from ops.watching import watch


def status(
    config: Config = None,
    data: Data = None,
    where: Where = None,
    sort: Sort = None,
    again: Annotated[bool, typer.Option("--watch", help="print it again and again, until Ctrl-C")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="pause of --watch")] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")] = False,
) -> None:
    """Reads shared memory only, so it works while the node's processes are busy and costs them nothing. Exit status 1
    if no node runs there. --where and --sort select and order the queues, by the fields that --json prints.

    Example: penstock status --watch --where 'vhost=eu' --where 'saturated=yes' --sort ready
    """
    directory = named_directory(config, data)

    def text() -> str:
        found = collect(directory)
        found = replace(found, queues=selected_rows(found.queues, where, sort))
        if json:
            return orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2).decode() + "\n"
        from ops.status_tables import drawn  # not at the top: it imports what draws tables

        return drawn(found)

    with exit_unless_running():
        if again:
            watch(text, every)
        else:
            print(text(), end="")


def ping(
    config: Config = None,
    data: Data = None,
    supervisor: Annotated[
        bool,
        typer.Option(
            "--supervisor", help="only whether its supervisor responds, which also starts and replaces the others"
        ),
    ] = False,
) -> None:
    """Exit status 1, with the reason, if it does not. Reads shared memory only, for a probe as often as one likes.

    Example: penstock ping --data /var/lib/penstock
    """
    directory = named_directory(config, data)
    with exit_unless_running():
        if supervisor:
            print(f"the supervisor responds, pid {supervisor_of(directory)}")
        else:
            print(f"serving on {address_of(directory)}")


def health(
    config: Config = None,
    data: Data = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of lines")] = False,
) -> None:
    """Exit status 1 if a check fails, or if no node runs.

    Example: penstock health --data /var/lib/penstock
    """
    from ops import health  # not at the top: the other commands do not need it

    with exit_unless_running():
        found = health.checks(named_directory(config, data))
    print(health.as_json(found) if json else "\n".join(health.lines(found)))
    if not all(check.passed for check in found):
        raise typer.Exit(1)
