"""The store of one shard: an LMDB environment in DATA/shards/INDEX, written by commits (`shard/journal.py`).

`write` and `sync` block and belong to one thread of their own; reading goes on beside them, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import lmdb

from penstock.batch_cy import Batch
from shard.journal import Commit
from shard.segment_cy import Segment
from shard.stored import DATABASES, FORMAT, KEY, NUMBER, unpack_contents, unpack_segment

Durability = Literal["commit", "interval", "none"]

# Pages that are free but not yet reused, and the trees themselves, need room beyond the contents.
SLACK = 256 * 1024 * 1024


class StoreError(Exception):
    """The store cannot be read or written; the text says which, and why."""


class Store:
    """An open store. With `durable` each write is on the disk when it returns, else when `sync` does.

    StoreError if it cannot be opened, or is of a format that this version does not know.
    """

    def __init__(self, path: Path, limit: int, durable: bool) -> None:
        self.path = path
        self._limit = limit
        self._durable = durable
        self._lock = threading.Lock()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()
            self.life = self._begin_life()
        except (lmdb.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from None

    def _open(self) -> None:
        self._env = lmdb.open(
            str(self.path), map_size=2 * self._limit + SLACK, max_dbs=len(DATABASES), mode=0o600,
            sync=self._durable, metasync=self._durable, readahead=False, meminit=False,
        )  # fmt: skip
        self._env.reader_check()
        self._dbs = {name: self._env.open_db(name.encode()) for name in DATABASES}

    def _begin_life(self) -> int:
        with self._env.begin(write=True) as txn:
            facts = self._dbs["facts"]
            found = txn.get(b"format", db=facts)
            if found is not None and found != NUMBER.pack(FORMAT):
                raise StoreError(f"{self.path}: format {int.from_bytes(found, 'little')}, this is for format {FORMAT}")
            txn.put(b"format", NUMBER.pack(FORMAT), db=facts)
            life = _number(txn.get(b"life", db=facts)) + 1
            txn.put(b"life", NUMBER.pack(life), db=facts)
        return life

    def begin_epoch(self, epoch: int) -> bool:
        """Note the run of the node; whether it is the one that wrote last."""
        with self._env.begin(write=True) as txn:
            same = _number(txn.get(b"epoch", db=self._dbs["facts"])) == epoch
            txn.put(b"epoch", NUMBER.pack(epoch), db=self._dbs["facts"])
            if not same:
                txn.drop(self._dbs["links"], delete=False)
        return same

    # Reading

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """All segments with the ids of their queues, in order. StoreError at one that cannot be read."""
        with self._env.begin(db=self._dbs["index"]) as txn:
            for key, record in txn.cursor():
                queue_id, sequence = KEY.unpack(key)
                try:
                    yield queue_id, unpack_segment(sequence, record)
                except ValueError as error:
                    raise StoreError(f"{self.path}: queue {queue_id}, message {sequence}: {error}") from None

    def numbers(self, name: Literal["leases", "counts"]) -> Iterator[tuple[int, int, int]]:
        """Queue id, priority or sequence, and the number noted for it."""
        with self._env.begin(db=self._dbs[name]) as txn:
            for key, record in txn.cursor():
                yield *KEY.unpack(key), _number(record)

    def links(self) -> dict[bytes, bytes]:
        """What was noted of each acceptor and other shard."""
        with self._env.begin(db=self._dbs["links"]) as txn:
            return dict(txn.cursor())

    def read(self, key: bytes, count: int) -> Batch:
        """The contents of a segment of so many messages. StoreError if they cannot be read."""
        try:
            with self._lock, self._env.begin(db=self._dbs["contents"], buffers=True) as txn:
                value = txn.get(key)
                if value is None:
                    raise StoreError(f"{self.path}: contents of {KEY.unpack(key)} are missing")
                return unpack_contents(count, value)
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"{self.path}: contents of {KEY.unpack(key)}: {error}") from None

    # Writing

    def write(self, commit: Commit) -> None:
        """Write a commit whole. StoreError if it cannot be: then nothing of it is there, and it may be tried again."""
        try:
            with self._env.begin(write=True) as txn:
                for name in ("index", "leases", "counts", "links"):
                    records = getattr(commit, name)
                    db = self._dbs[name]
                    for key, record in records.items():
                        if record is None:
                            txn.delete(key, db=db)
                        else:
                            txn.put(key, record, db=db)
                contents = self._dbs["contents"]
                for key, parts in commit.contents.items():
                    if parts is None:
                        txn.delete(key, db=contents)
                    else:
                        txn.put(key, b"".join(parts), db=contents)
        except (lmdb.Error, OSError) as error:
            self._reopen()
            raise StoreError(f"{self.path}: {error}") from None

    def sync(self) -> None:
        """Have everything written on the disk. StoreError if that fails."""
        try:
            self._env.sync(True)
        except (lmdb.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from None

    def _reopen(self) -> None:
        """An environment whose write failed may refuse all others from then on."""
        with self._lock:
            self._env.close()
            self._open()

    def close(self) -> None:
        self._env.close()


def _number(record: bytes | None) -> int:
    return 0 if record is None else NUMBER.unpack(record)[0]
