"""Disk space that a node reserves for its next start: the topology is written then, and a full disk would refuse it.

`DATA/reserve` is allocated (fallocate(2)) while the node runs, as large as the disk allows, and released before the
next start opens any file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE_NAME = "reserve"
SIZES = tuple(1 << shift for shift in (20, 18, 16))
"""Bytes to reserve in addition to those for the topology, in the order tried."""


def keep(data: Path, beside: int) -> None:
    """Allocate the reserve with `beside` more bytes; on a full disk as much of it as fits, if any."""
    path = data / FILE_NAME
    if path.exists():
        return
    for nbytes in (SIZES[0] + beside, *SIZES):
        with suppress(OSError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, nbytes)
                return
            finally:
                os.close(file)
    path.unlink(missing_ok=True)


def give_back(data: Path) -> None:
    """Release the reserve; called only when its space is needed, as other processes could take it."""
    (data / FILE_NAME).unlink(missing_ok=True)
