"""The files that one process writes: frames are appended to a file with a hidden name, which becomes visible when the
file is finished.

A writer holds a lock (flock) on each unfinished file. The lock ends with the writer, so a process that gets the lock
knows that the writer is dead (`penstock.telemetry.sweep`).
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from penstock.node.clock import wall_us
from penstock.telemetry.layout import FileName, partition

HourOf = tuple[str, int]
"""A table, and an hour counted from 1970."""


class LiveFile:
    """One unfinished file. OSError where it cannot be created or written."""

    def __init__(self, directory: Path, name: FileName) -> None:
        self.finished = directory / str(name)
        self.path = directory / str(name._replace(finished=False))
        self.size = 0
        self.whole = True
        self.begun = time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError:
            os.close(self.fd)
            raise

    def append(self, data: bytes) -> None:
        """Append a frame, whole or not at all."""
        if not os.fstat(self.fd).st_nlink:
            raise FileNotFoundError(2, "it was removed while it was written", str(self.path))
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError:
            self.whole = False
            os.ftruncate(self.fd, self.size)
            self.whole = True
            raise
        self.size += len(data)

    def finish(self) -> None:
        """Make the file visible to readers. If that fails, or a partial frame is at its end, the next sweep does it."""
        try:
            if not self.size:
                self.path.unlink()
            elif self.whole:
                os.fsync(self.fd)
                self.path.rename(self.finished)
        finally:
            os.close(self.fd)


class LiveFiles:
    """The files of one process, at most one for each table and hour at a time."""

    def __init__(self, root: Path, node: str, process: str, file_seconds: float, file_bytes: int) -> None:
        self.root = root
        self.node = node
        self.process = process
        self.file_seconds = file_seconds
        self.file_bytes = file_bytes
        self.open: dict[HourOf, LiveFile] = {}

    def append(self, table: str, hour: int, data: bytes) -> None:
        """Append a frame of rows of a table and an hour. OSError if it cannot be written; then none of it is."""
        file = self.open.get((table, hour))
        if file is None:
            name = FileName(self.node, self.process, wall_us(), finished=True)
            file = self.open[table, hour] = LiveFile(partition(self.root, table, hour), name)
        try:
            file.append(data)
        except OSError:
            del self.open[table, hour]
            with suppress(OSError):  # a sweep will finish it
                file.finish()
            raise

    def due(self) -> float | None:
        """Seconds until the next file is due to be finished; None if there is none."""
        if not self.open:
            return None
        return max(min(file.begun for file in self.open.values()) + self.file_seconds - time.monotonic(), 0.0)

    def finish_due(self) -> None:
        """Finish the files that are old or large enough. OSError if one cannot be; the others are finished."""
        old = time.monotonic() - self.file_seconds
        self._finish([key for key, file in self.open.items() if file.begun <= old or file.size >= self.file_bytes])

    def finish_all(self) -> None:
        """Finish all files. OSError if one cannot be; the others are finished."""
        self._finish(list(self.open))

    def _finish(self, keys: list[HourOf]) -> None:
        problem: OSError | None = None
        for key in keys:
            try:
                self.open.pop(key).finish()
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem
