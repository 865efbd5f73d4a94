"""What is printed again and again until Ctrl-C, or q on a terminal: there each time in the place of the last."""

from __future__ import annotations

import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(text: Callable[[], str], seconds: float) -> None:
    """Print what `text` returns every so many seconds, until Ctrl-C or q. Without a terminal, an empty line is
    between.
    """
    terminal, separator = sys.stdout.isatty(), ""
    with suppress(KeyboardInterrupt), _keys(terminal) as has_keys:
        while True:
            printed = text()
            sys.stdout.write(_on_screen(printed) if terminal else separator + printed)
            sys.stdout.flush()
            separator = "\n"
            if not has_keys:
                time.sleep(seconds)
            elif _quits(seconds):
                return


@contextmanager
def _keys(terminal: bool) -> Iterator[bool]:
    """Have the terminal hand over keys as they are pressed, without showing them; yield whether it does."""
    if not (terminal and sys.stdin.isatty()):
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quits(seconds: float) -> bool:
    """Wait so long for a key; return whether it is q, or there are none any more. Other keys end the wait."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return False
    return sys.stdin.readline(1) in ("q", "Q", "")


def _on_screen(text: str) -> str:
    """Return a text that takes the place of what is on the screen; the last line says how much has no room."""
    lines = text.splitlines()
    room = shutil.get_terminal_size().lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"{len(lines) - room + 1} more lines on a higher terminal, or in a pipe"]
    return HOME + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN
