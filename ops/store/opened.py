"""The stores of a data directory, opened for reading by nobody else."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from ops.errors import CommandError
from shard.checkpoint import Checkpoint
from shard.environment import StoreError, is_unfinished, reason_of
from shard.facts import facts_of
from shard.sealed import unseal
from shard.stored import DATABASES, FORMAT

FOLDER = "shards"


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
    """A store open for reading. Values that it gives are valid until the next one."""

    def __init__(self, path: Path, env: Any) -> None:
        self.path = path
        self.env = env
        self.dbs: dict[str, Any] = {}
        for name in DATABASES:
            try:
                self.dbs[name] = env.open_db(name.encode(), create=False)
            except (lmdb.NotFoundError, lmdb.ReadonlyError):
                continue  # its making was cut short

    def entries(self, name: str) -> int:
        """How many records a database has."""
        if name not in self.dbs:
            return 0
        with self.env.begin() as txn:
            return int(txn.stat(self.dbs[name])["entries"])

    def records(self, name: str) -> Iterator[tuple[bytes, memoryview]]:
        """Keys and values of a database, in order."""
        if name in self.dbs:
            with self.env.begin(db=self.dbs[name], buffers=True) as txn:
                for key, value in txn.cursor():
                    yield bytes(key), value

    def unsealed(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Keys and records of a database, in order. ValueError at one that is not what was written."""
        for key, value in self.records(name):
            yield key, unseal(name, key, value)


@contextmanager
def opened(path: Path, shard: int) -> Iterator[Opened]:
    """The store of a shard. StoreError if it is none, of another format or another shard's, or cannot be read."""
    try:
        Checkpoint(path).restore()
        with lmdb.open(
            str(path), readonly=True, lock=False, max_dbs=len(DATABASES), readahead=False, create=False
        ) as env:
            store = Opened(path, env)
            if "facts" in store.dbs:
                with env.begin(buffers=True) as txn:
                    format = facts_of(path, txn, store.dbs["facts"], shard).get("format", FORMAT)
                if format < FORMAT:
                    raise StoreError(path, f"it is of format {format}: the next start of the node takes it over")
            yield store
    except (lmdb.Error, OSError, struct.error, ValueError) as error:
        raise StoreError(path, reason_of(error)) from None
