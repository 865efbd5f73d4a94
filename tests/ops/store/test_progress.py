"""The progress of a long run: on a terminal, and nowhere else."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import FileIO

import pytest

from ops.store.progress import progress


def test_away_from_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("the file", 10) as step:
        for _ in range(10):
            step(1)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_the_share_that_is_done_and_gets_its_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    master, slave = os.openpty()
    with open(master, "rb", buffering=0) as screen:
        with open(slave, "w") as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            with progress("the file", 10) as step:
                step(3)
                step(2)
        text = all_of(screen).decode()
    assert "the file" in text
    assert "50 %" in text
    assert text.rindex("\x1b[?25h") > text.rindex("50 %")


def all_of(screen: FileIO) -> bytes:
    """Return everything sent to a terminal whose other end is closed: reading then ends in EIO."""
    found = b""
    with suppress(OSError):
        while piece := screen.read(1 << 16):
            found += piece
    return found
