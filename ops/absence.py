"""The end of a command that reads a node which does not run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ops.status import NotRunning


@contextmanager
def exit_unless_running() -> Iterator[None]:
    """Exit with status 1, and the reason, if no node runs."""
    try:
        yield
    except NotRunning as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None
