"""`penstock status`, `penstock ping` and `penstock health`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import orjson
import typer

from ops.naming import Config, Data, named_directory
from ops.status import NotRunning, address_of, collect


def status(
    config: Config = None,
    data: Data = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")] = False,
) -> None:
    """Reads shared memory only, so it works while the node's processes are busy and costs them nothing. Exit status 1
    if no node runs there.
    """
    with _running():
        found = collect(named_directory(config, data))
    if json:
        print(orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2).decode())
        return
    from ops.status_tables import show  # not at the top: it imports what draws tables

    show(found)


def ping(config: Config = None, data: Data = None) -> None:
    """Exit status 1, with the reason, if it does not. Reads shared memory only, for a probe as often as one likes.

    Example: penstock ping --data /var/lib/penstock
    """
    with _running():
        print(f"serving on {address_of(named_directory(config, data))}")


def health(
    config: Config = None,
    data: Data = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of lines")] = False,
) -> None:
    """Exit status 1 if a check fails, or if no node runs.

    Example: penstock health --data /var/lib/penstock
    """
    from ops import health  # not at the top: the other commands do not need it

    with _running():
        found = health.checks(named_directory(config, data))
    print(health.as_json(found) if json else "\n".join(health.lines(found)))
    if not all(check.passed for check in found):
        raise typer.Exit(1)


@contextmanager
def _running() -> Iterator[None]:
    """Exit with status 1, and the reason, if no node runs."""
    try:
        yield
    except NotRunning as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None
