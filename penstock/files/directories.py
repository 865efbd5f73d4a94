"""Files that stay where they were put, and that nobody else may read."""

from __future__ import annotations

import os
from pathlib import Path


def private(path: str, flags: int) -> int:
    """The opener (`open`) of a file of mode 0600."""
    return os.open(path, flags, 0o600)


def sync_directories(*paths: Path) -> None:
    """Files and directories that were made in these last. OSError if that cannot be ensured."""
    for path in paths:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def set_aside(path: Path) -> Path:
    """Give a file or directory another name, next to where it is; that name. OSError if that cannot be."""
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.set-aside" + (f".{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            sync_directories(path.parent)
            return aside
        number += 1
