"""Room on the disk that a store keeps for itself beyond what it has written, so that it can go on where others have
filled the disk: what is acknowledged is deleted by writing, beside what was (LMDB copies what it changes).

It is allocated behind the end of the file (fallocate(2), FALLOC_FL_KEEP_SIZE): nobody else can have it, and it stays
through the next start. ext4 gives what there is of it before it says that there is not enough: the topology would have
nothing left for its start, and without that no shard is ready. So nothing is asked for unless more is free.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from penstock.files import reserve

OCTETS = 8 * 1024 * 1024
# So much of the disk is left to others, twice what the topology keeps for its start.
OTHERS = 2 * reserve.SIZES[0]
_KEEP_SIZE = 1
_BLOCK = 512
_FULL = (errno.ENOSPC, errno.EDQUOT)
_libc = ctypes.CDLL(None, use_errno=True)


class Headroom:
    """That of the file at a path. `octets` is its size, half of which at least stays allocated; no more has to be while
    at most `enough_until` octets are written.
    """

    def __init__(self, path: Path, octets: int = OCTETS) -> None:
        self.octets = octets
        self._path = path
        self.enough_until = -1

    def ensure(self, written: int) -> bool:
        """Have it behind so many octets that are written; whether it is there. True too where no file system gives
        any. OSError if the file cannot be opened.
        """
        if written <= self.enough_until:
            return True
        missing = written + self.octets - self._path.stat().st_blocks * _BLOCK
        if missing > 0 and shutil.disk_usage(self._path).free < missing + OTHERS:
            return False
        error = _allocate(self._path, written, self.octets)
        if error == 0:
            self.enough_until = written + self.octets - self.octets // 2
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
