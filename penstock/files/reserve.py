"""Room on the disk that a node keeps for its next start: its topology is written then, and a full disk would refuse.

`DATA/reserve` is allocated (fallocate(2)) while the node runs, as large as there is room for, and given back before
the next one opens anything.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE_NAME = "reserve"
SIZES = tuple(1 << shift for shift in (20, 18, 16))
"""Octets, beside those of the topology: what is tried first comes first."""


def keep(data: Path, beside: int) -> None:
    """Have it, and as many octets `beside`; as much of it as the disk has, if it has any."""
    path = data / FILE_NAME
    if path.exists():
        return
    for octets in (SIZES[0] + beside, *SIZES):
        with suppress(OSError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, octets)
                return
            finally:
                os.close(file)
    path.unlink(missing_ok=True)


def give_back(data: Path) -> None:
    """Nobody else may have been able to take it until now."""
    (data / FILE_NAME).unlink(missing_ok=True)
