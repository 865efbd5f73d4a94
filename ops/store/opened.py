"""The stores of a data directory, opened for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from ops.errors import CommandError
from shard.contents.errors import StoreError
from shard.store.checkpoint import Checkpoint
from shard.store.environment import FILE_NAME, is_unfinished, translated
from shard.store.facts import FACTS, facts_of
from shard.store.sealed_cy import unseal
from shard.store.stored import DATABASES, FORMAT

FOLDER = "shards"
HEADROOM = 1 << 30
"""Bytes by which the file of a live store may grow while it is being opened."""


def store_paths(data: Path) -> list[tuple[int, Path]]:
    """Return shard and path of each store of a data directory, in order of shards, except those that were never
    finished. CommandError if they cannot be listed.
    """
    try:
        found = [path for path in (data / FOLDER).iterdir() if path.name.isdecimal() and not is_unfinished(path)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandError(f"cannot read {data / FOLDER}: {error.strerror}") from None
    return sorted((int(path.name), path) for path in found)


class Opened:
    """A snapshot of a store, from when it was opened. A value that it yields is valid until the next one."""

    def __init__(self, path: Path, env: Any, txn: Any) -> None:
        self.path = path
        self.env = env
        self.txn = txn
        self.dbs: dict[str, Any] = {}
        for name in DATABASES:
            try:
                self.dbs[name] = env.open_db(name.encode(), txn, create=False)
            except (lmdb.NotFoundError, lmdb.ReadonlyError):
                continue  # the store was never finished

    def facts(self, shard: int) -> dict[str, int]:
        """Return the store's facts. StoreError if it belongs to another shard, or is of a newer format."""
        return facts_of(self.path, self.txn, self.dbs[FACTS], shard) if FACTS in self.dbs else {}

    def entries(self, name: str) -> int:
        """Return the number of records in a database."""
        return int(self.txn.stat(self.dbs[name])["entries"]) if name in self.dbs else 0

    def records(self, name: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values of a database in order, from the key `first` on."""
        if name in self.dbs:
            with self.txn.cursor(self.dbs[name]) as cursor:
                if cursor.set_range(first) if first else cursor.first():
                    for key, value in cursor:
                        yield bytes(key), value

    def unsealed(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and records of a database in order. ValueError at a damaged record."""
        for key, value in self.records(name):
            yield key, unseal(name, key, value)


def open_environment(path: Path, live: bool) -> Any:
    """Open the environment of a store for reading; `live` means that a node has it open. StoreError if that fails."""
    with translated(path):
        if not live:
            Checkpoint(path).restore()
        elif Checkpoint(path).is_due():
            raise StoreError(path, "the node has not opened it yet")
        nbytes = (path / FILE_NAME).stat().st_size + (HEADROOM if live else 0)
        return lmdb.open(
            str(path), map_size=nbytes, readonly=True, lock=live, max_dbs=len(DATABASES), readahead=False, create=False
        )


@contextmanager
def opened(path: Path, shard: int, live: bool = False) -> Iterator[Opened]:
    """Open the store of a shard as it is now. StoreError if it is missing, unreadable, of another format or of another
    shard.

    While a live store is open, space freed in its file is not reused.
    """
    with translated(path), open_environment(path, live) as env, env.begin(buffers=True) as txn:
        store = Opened(path, env, txn)
        if (format := store.facts(shard).get("format", FORMAT)) < FORMAT:
            raise StoreError(path, f"it is of format {format}: the next start of the node converts it")
        yield store


def forget_reader(path: Path) -> None:
    """Remove the entries of readers that were killed with a live store open. StoreError if that fails."""
    with translated(path), lmdb.open(str(path), readonly=True, create=False) as env:
        env.reader_check()
