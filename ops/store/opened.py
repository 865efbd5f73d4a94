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
"""So many octets the file of a live store may grow by while it is being opened."""


def store_paths(data: Path) -> list[tuple[int, Path]]:
    """The stores of a data directory, by shard; without those never finished. CommandError if they cannot be listed."""
    try:
        found = [path for path in (data / FOLDER).iterdir() if path.name.isdecimal() and not is_unfinished(path)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandError(f"cannot read {data / FOLDER}: {error.strerror}") from None
    return sorted((int(path.name), path) for path in found)


class Opened:
    """A store as it was when it was opened. Values that it gives are valid until the next one."""

    def __init__(self, path: Path, env: Any, txn: Any) -> None:
        self.path = path
        self.env = env
        self.txn = txn
        self.dbs: dict[str, Any] = {}
        for name in DATABASES:
            try:
                self.dbs[name] = env.open_db(name.encode(), txn, create=False)
            except (lmdb.NotFoundError, lmdb.ReadonlyError):
                continue  # its making was cut short

    def facts(self, shard: int) -> dict[str, int]:
        """What it says of itself. StoreError if it is another shard's, or of a newer format."""
        return facts_of(self.path, self.txn, self.dbs[FACTS], shard) if FACTS in self.dbs else {}

    def entries(self, name: str) -> int:
        """How many records a database has."""
        return int(self.txn.stat(self.dbs[name])["entries"]) if name in self.dbs else 0

    def records(self, name: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Keys and values of a database, in order, from a key on."""
        if name in self.dbs:
            with self.txn.cursor(self.dbs[name]) as cursor:
                if cursor.set_range(first) if first else cursor.first():
                    for key, value in cursor:
                        yield bytes(key), value

    def unsealed(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Keys and records of a database, in order. ValueError at one that is not what was written."""
        for key, value in self.records(name):
            yield key, unseal(name, key, value)


def open_environment(path: Path, live: bool) -> Any:
    """The environment of a store for reading; `live` is one that a node has open. StoreError if that cannot be."""
    with translated(path):
        if not live:
            Checkpoint(path).restore()
        elif Checkpoint(path).is_due():
            raise StoreError(path, "the node has not opened it yet")
        octets = (path / FILE_NAME).stat().st_size + (HEADROOM if live else 0)
        return lmdb.open(
            str(path), map_size=octets, readonly=True, lock=live, max_dbs=len(DATABASES), readahead=False, create=False
        )


@contextmanager
def opened(path: Path, shard: int, live: bool = False) -> Iterator[Opened]:
    """The store of a shard as it is now. StoreError if it is none, of another format or another shard's, or cannot be
    read.

    As long as a live one is open nothing that is deleted makes room in its file.
    """
    with translated(path), open_environment(path, live) as env, env.begin(buffers=True) as txn:
        store = Opened(path, env, txn)
        if (format := store.facts(shard).get("format", FORMAT)) < FORMAT:
            raise StoreError(path, f"it is of format {format}: the next start of the node takes it over")
        yield store


def forget_reader(path: Path) -> None:
    """Of one who was killed while it had a live store open. StoreError if that cannot be."""
    with translated(path), lmdb.open(str(path), readonly=True, create=False) as env:
        env.reader_check()
