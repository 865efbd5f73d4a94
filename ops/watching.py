"""What is printed again and again until Ctrl-C: on a terminal each time in the place of the last."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress

HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(text: Callable[[], str], seconds: float) -> None:
    """Print what `text` returns every so many seconds, until Ctrl-C. Without a terminal, an empty line is between."""
    terminal, separator = sys.stdout.isatty(), ""
    with suppress(KeyboardInterrupt):
        while True:
            printed = text()
            sys.stdout.write(_on_screen(printed) if terminal else separator + printed)
            sys.stdout.flush()
            separator = "\n"
            time.sleep(seconds)


def _on_screen(text: str) -> str:
    """Return a text that takes the place of what is on the screen; the last line says how much has no room."""
    lines = text.splitlines()
    room = shutil.get_terminal_size().lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"{len(lines) - room + 1} more lines on a higher terminal, or in a pipe"]
    return HOME + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN
