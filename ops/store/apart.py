"""Runs work on files that may be damaged in a child process, and reports its failure in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import penstock.files.apart as process_apart
from ops.errors import CommandError
from shard.contents.errors import StoreError

T = TypeVar("T")


def apart(what: str, work: Callable[[], T]) -> T:
    """Return the result of `work`, done in a child. CommandError for its errors (of store or system) and its death.

    `what` names the subject of the work in the error.
    """
    try:
        return process_apart.apart(work, (StoreError, CommandError))
    except StoreError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{what}: {error.strerror}") from None
    except process_apart.EndedError as error:
        _show_cursor()
        raise CommandError(str(error).replace("it is", f"{what} is", 1)) from None


def _show_cursor() -> None:
    """Show the cursor again, which an interrupted progress bar leaves hidden."""
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)
