"""The files of certificates that may be replaced while they are served."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class ServedFiles:
    """The files that belong to the certificates of one listener."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._signatures = self._read()

    def have_changed(self) -> bool:
        """Whether any of them has changed since the last time."""
        before, self._signatures = self._signatures, self._read()
        return self._signatures != before

    def _read(self) -> list[tuple[int, int, int]]:
        return [_signature_of(path) for path in self._paths]


def _signature_of(path: Path) -> tuple[int, int, int]:
    """Return inode, size and time of modification (nanoseconds) of a file; zeros if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
