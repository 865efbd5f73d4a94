"""Room on the disk that a store reserves beyond its data, to go on after others have filled the disk: deleting
acknowledged messages needs new pages, since LMDB copies the pages it changes.

The room is allocated behind the end of the file (fallocate(2), FALLOC_FL_KEEP_SIZE): no other file can take it, and it
survives a restart. ext4 uses up the remaining room before it reports that there is not enough: the topology would have
nothing left for its start, and without it no shard is ready. So room is requested only if more than that is free.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from penstock.files import reserve

BYTES = 8 * 1024 * 1024
# Bytes of the disk left to others: twice the reserve of the topology for its start.
OTHERS = 2 * reserve.SIZES[0]
_KEEP_SIZE = 1
_BLOCK = 512
_FULL = (errno.ENOSPC, errno.EDQUOT)
_libc = ctypes.CDLL(None, use_errno=True)


class Headroom:
    """The headroom of one file. `nbytes` is its size, at least half of which stays allocated; no more is allocated
    until more than `enough_until` bytes are written.
    """

    def __init__(self, path: Path, nbytes: int = BYTES) -> None:
        self.nbytes = nbytes
        self._path = path
        self.enough_until = -1

    def ensure(self, written: int) -> bool:
        """Allocate the room behind the written bytes; return whether it is there, True as well if the file system
        cannot allocate. Raises OSError if the file cannot be opened.
        """
        if written <= self.enough_until:
            return True
        missing = written + self.nbytes - self._path.stat().st_blocks * _BLOCK
        if missing > 0 and shutil.disk_usage(self._path).free < missing + OTHERS:
            return False
        error = _allocate(self._path, written, self.nbytes)
        if error == 0:
            self.enough_until = written + self.nbytes - self.nbytes // 2
        return error not in _FULL


def _allocate(path: Path, start: int, nbytes: int) -> int:
    """Allocate; return 0, or the error of the system."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _libc.fallocate(file, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(nbytes)) == 0:
            return 0
        return ctypes.get_errno()
    finally:
        os.close(file)
