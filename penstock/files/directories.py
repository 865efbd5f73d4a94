"""Private files, and renames and directory entries that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def private(path: str, flags: int) -> int:
    """The opener (for `open`) of a file of mode 0600."""
    return os.open(path, flags, 0o600)


def sync_directories(*paths: Path) -> None:
    """Make the entries of these directories durable. OSError if that fails."""
    for path in paths:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def set_aside(path: Path) -> Path:
    """Rename a file or directory, next to its old place; return the new path. OSError if that fails."""
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.set-aside" + (f".{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            sync_directories(path.parent)
            return aside
        number += 1
