"""One LMDB environment with its databases: opened, grown, and reopened after a failure.

Only one thread may write; others may read meanwhile.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lmdb

from penstock.files.directories import set_aside
from penstock.node.logs import get_logger
from shard.contents.errors import StoreError
from shard.store.headroom import Headroom

log = get_logger()

# Pages that are free but not yet reused, and the trees themselves, need room beyond the contents.
SLACK = 256 * 1024 * 1024
# The environment's only file with contents, and the size of its start: two pages that identify it.
FILE_NAME = "data.mdb"
LEAST = 2 * 4096
# A disk with fewer free bytes is full.
FULL = 64 * 1024


@contextmanager
def translated(path: Path, what: str = "") -> Iterator[None]:
    """Translate errors of a disk or a file into a StoreError; `what` names the thing that could not be read."""
    try:
        yield
    except (lmdb.Error, OSError, ValueError, struct.error) as error:
        raise StoreError(path, f"{what}{': ' if what else ''}{reason_of(error)}") from None


class Environment:
    """An open environment of the databases named. With `synced` each transaction is on the disk once it is committed.

    Raises StoreError if it cannot be opened.
    """

    def __init__(self, path: Path, names: Sequence[str], limit: int, synced: bool) -> None:
        self.path = path
        self._names = names
        self._map_size = 0
        self.limit(limit)
        self._synced = synced
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._overflowed = False
        self._headroom = Headroom(path / FILE_NAME)
        with translated(self.path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_unfinished(path) and (path / FILE_NAME).exists():
                aside = set_aside(path / FILE_NAME)
                log.warning("the file contains no store, a new one is begun", path=str(path), set_aside=str(aside))
            self._open()

    def limit(self, nbytes: int) -> None:
        """Set the size that the contents may have, in bytes: the file may have more, and never shrinks."""
        self._most = 2 * nbytes + SLACK
        self._map_size = self._map_size or self._most

    def entries(self, name: str) -> int:
        """The number of records in a database. Raises StoreError if it cannot be read."""
        with translated(self.path), self._lock, self._env.begin() as txn:
            return int(txn.stat(self._dbs[name])["entries"])

    def _open(self) -> None:
        self._env = lmdb.open(
            str(self.path), map_size=self._map_size, max_dbs=len(self._names), mode=0o600,
            sync=self._synced, metasync=self._synced, readahead=False, meminit=False,
        )  # fmt: skip
        self._env.reader_check()
        self._dbs = {name: self._env.open_db(name.encode()) for name in self._names}
        self._page = int(self._env.stat()["psize"])
        self._writable = True

    def __getitem__(self, name: str) -> Any:
        """The handle of a database."""
        return self._dbs[name]

    @contextmanager
    def reading(self, what: str) -> Iterator[lmdb.Transaction]:
        """A snapshot; values are views that end with it. Raises StoreError if it fails."""
        with translated(self.path, what), self._lock, self._env.begin(buffers=True) as txn:
            yield txn

    def write(self, put: Any) -> None:
        """Call `put` with a transaction and commit it. Raises StoreError if that fails, and nothing is written.

        `put` may be called several times, each time with a new transaction.
        """
        try:
            if not self._writable:
                self._reopen()
            while True:
                try:
                    with self._writing, self._env.begin(write=True) as txn:
                        put(txn)
                    return
                except lmdb.MapFullError:
                    self._grow()
        except (lmdb.Error, OSError) as error:
            self._mend()
            raise StoreError(self.path, self._reason_not_written(error)) from None

    def _reason_not_written(self, error: Exception) -> str:
        """The reason of a failed write. The system cuts short the write that fills the disk, and LMDB takes any short
        write for an I/O error.
        """
        reason = reason_of(error)
        with suppress(OSError):  # whether the disk is full cannot be read either
            if reason == os.strerror(errno.EIO) and shutil.disk_usage(self.path).free < FULL:
                return os.strerror(errno.ENOSPC)
        return reason

    def overflowed(self) -> bool:
        """Whether more had to be written, since the last call, than the limit allows."""
        overflowed, self._overflowed = self._overflowed, False
        return overflowed

    def _grow(self) -> None:
        """Grow the map beyond the limit if necessary: deleting needs room as well."""
        with self._lock:
            size = int(self._env.info()["map_size"])
            self._overflowed |= size >= self._most
            self._map_size = max(size + SLACK, self._most)
            self._env.set_mapsize(self._map_size)

    def has_room(self, was_full: bool) -> bool:
        """Whether more may be written, as seen by the thread that writes. Raises StoreError if that cannot be
        determined.

        There is room if the disk keeps it free for the store (shard/store/headroom.py), or if the disk has been full
        and as much is free in the file; twice as much if it `was_full`.
        """
        with translated(self.path), self._lock:
            pages = int(self._env.info()["last_pgno"]) + 1
            if pages * self._page <= self._headroom.enough_until:
                return True
            self._env.reader_check()  # a reader that was killed would keep pages from being reused
            if self._headroom.ensure(pages * self._page):
                return True
            free = (pages - self._used_pages()) * self._page
            return free >= self._headroom.nbytes * (2 if was_full else 1)

    def _used_pages(self) -> int:
        with self._env.begin() as txn:
            stats = [self._env.stat(), *(txn.stat(db) for db in self._dbs.values())]
        return sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)

    def sync(self) -> None:
        """Flush everything written to the disk. Raises StoreError if that fails."""
        try:
            self._env.sync(True)
        except (lmdb.Error, OSError) as error:
            self._mend()
            raise StoreError(self.path, reason_of(error)) from None

    def _mend(self) -> None:
        """Reopen an environment that failed to write its metadata, since it refuses everything, even reading."""
        try:
            with self._env.begin():
                return
        except lmdb.Error:
            with suppress(lmdb.Error, OSError):  # reopening is tried again with the next write
                self._reopen()

    def _reopen(self) -> None:
        """Reopen the environment, at least for reading. Raises lmdb.Error or OSError if it cannot be written."""
        with self._lock:
            self._env.close()
            self._writable = False
            try:
                self._open()
            except (lmdb.Error, OSError):
                self._env = lmdb.open(
                    str(self.path), map_size=self._map_size, max_dbs=len(self._names), readonly=True, lock=False,
                    readahead=False,
                )  # fmt: skip
                self._dbs = {name: self._env.open_db(name.encode(), create=False) for name in self._names}
                raise

    def close(self) -> None:
        self._env.close()


def is_unfinished(path: Path) -> bool:
    """Whether the creation of a store was cut short, so that nothing was ever in it."""
    try:
        with (path / FILE_NAME).open("rb") as file:
            head = file.read(LEAST)
        return len(head) < LEAST or not any(head)
    except FileNotFoundError:
        return True


def reason_of(error: Exception) -> str:
    """Why a call failed, without the name of the call or the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).rpartition(": ")[2] if isinstance(error, lmdb.Error) else str(error)
