"""Removes the gauges that crashed nodes left in shared memory."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import psutil

from penstock.memory.layout import MAGIC, PREFIX

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  files there are made exclusively, and private
"""The directory of the gauges of all nodes."""


def remove_stale(directory: Path = SHARED_MEMORY) -> list[Path]:
    """Unlink the gauges that crashed nodes of this user left in `directory` and return their paths.

    Only regular files named penstock-*.gauges that belong to this user, begin with the magic, and whose process has
    ended; a file that its creator still holds open (in another PID namespace) stays.
    """
    removed = []
    for path in sorted(directory.glob("penstock-*.gauges")):
        try:
            if _is_stale(path):
                path.unlink()
                removed.append(path)
        except OSError:  # another start was quicker, or the file is not readable
            continue
    return removed


def _is_stale(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        prefix = os.pread(fd, PREFIX.size, 0)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or not prefix.startswith(MAGIC):
            return False
        if len(prefix) == PREFIX.size and _is_running(PREFIX.unpack(prefix)[3]):
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(fd)


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # the latter two: no valid pid
        return False
    except psutil.AccessDenied:
        return True
