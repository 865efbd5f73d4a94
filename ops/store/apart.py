"""Commands on files that may be damaged: their work is done apart, and its end told in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import penstock.files.apart as process_apart
from ops.errors import CommandError
from shard.contents.errors import StoreError

T = TypeVar("T")


def apart(what: str, work: Callable[[], T]) -> T:
    """The result of `work`, done in a child. CommandError for its errors (of the store, of the system) and its death.

    `what` is what it works on, as the error names it.
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
    """A progress bar that was cut off has hidden it."""
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)
