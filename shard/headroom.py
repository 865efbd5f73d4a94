"""Room on the disk that a store keeps for itself beyond what it has written, so that it can go on where others have
filled the disk: what is acknowledged is deleted by writing, beside what was (LMDB copies what it changes).

It is allocated behind the end of the file (fallocate(2), FALLOC_FL_KEEP_SIZE): nobody else can have it, and it stays
through the next start.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

OCTETS = 8 * 1024 * 1024
_KEEP_SIZE = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)
_libc = ctypes.CDLL(None, use_errno=True)


class Headroom:
    """That of the file at a path. `octets` is how much there is to be, at least half of it."""

    def __init__(self, path: Path, octets: int = OCTETS) -> None:
        self.octets = octets
        self._path = path
        self._end = 0

    def ensure(self, written: int) -> bool:
        """Have it behind so many octets that are written; whether it is there. True too where no file system gives
        any. OSError if the file cannot be opened.
        """
        if self._end - written >= self.octets // 2:
            return True
        error = _allocate(self._path, written, self.octets)
        if error == 0:
            self._end = written + self.octets
        return error not in _FULL


def _allocate(path: Path, start: int, octets: int) -> int:
    """0, or the error of the system."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _libc.fallocate(file, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(octets)) == 0:
            return 0
        return ctypes.get_errno()
    finally:
        os.close(file)
