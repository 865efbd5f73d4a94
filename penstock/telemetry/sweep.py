"""Maintenance of a node's telemetry files: finishes those of dead writers, and keeps all files within their limit."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from penstock.node.logs import get_logger
from penstock.telemetry.frames import whole
from penstock.telemetry.layout import FileName, files

log = get_logger()

YOUNG_SECONDS = 60.0
"""A younger empty file may be one whose writer has not locked it yet."""


def sweep(root: Path, names: Collection[str], limit: int) -> int:
    """Finish and delete the files of the node of these names; return the bytes of the finished files that remain.
    Failed steps are left for the next sweep.
    """
    finished: list[tuple[FileName, Path]] = []
    for name, path in files(root, names):
        if name.finished:
            finished.append((name, path))
        else:
            with suppress(OSError):
                if take_over(path, path.with_name(str(name._replace(finished=True)))):
                    finished.append((name, path.with_name(str(name._replace(finished=True)))))
    return bound(sorted(finished, key=lambda file: file[0].begun), limit)


def take_over(path: Path, finished: Path) -> bool:
    """Finish a file whose writer is dead, cut after its last whole frame; return whether that was so, and a frame was
    left.
    """
    with path.open("r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        facts = os.fstat(file.fileno())
        if not facts.st_nlink or (not facts.st_size and time.time() - facts.st_mtime < YOUNG_SECONDS):
            return False
        end = whole(file)
        if not end:
            path.unlink()
            return False
        file.truncate(end)
        os.fsync(file.fileno())
        path.rename(finished)
    log.info("telemetry of a dead process finished", file=finished.name, bytes=end, cut=facts.st_size - end)
    return True


def bound(finished: list[tuple[FileName, Path]], limit: int) -> int:
    """Delete files, in the order given, until the rest is within the limit; return the bytes of the rest."""
    sizes = {path: size for _, path in finished if (size := _size(path)) is not None}
    nbytes, gone = sum(sizes.values()), 0
    for path, size in sizes.items():
        if nbytes <= limit:
            break
        with suppress(OSError):
            path.unlink()
            nbytes -= size
            gone += 1
    if gone:
        log.warning("telemetry beyond its limit deleted", files=gone, bytes_left=nbytes, limit=limit)
    return nbytes


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # another process was quicker
        return None
