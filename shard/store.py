"""The store of one shard: an LMDB environment in DATA/shards/INDEX, written by commits (`shard/journal.py`).

`write` and `sync` block and belong to one thread of their own; reading goes on beside them, from any thread.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
# An environment's only file with contents, and what it begins with: two pages that say what it is.
FILE_NAME = "data.mdb"
LEAST = 2 * 4096


class StoreError(Exception):
    """The store cannot be read or written; the text says which and why, `reason` only why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class Store:
    """An open store. With `durable` each write is on the disk when it returns, else when `sync` does.

    StoreError if it cannot be opened, is of a format that this version does not know, or another shard's.
    """

    def __init__(self, path: Path, limit: int, durable: bool, shard: int = 0) -> None:
        self.path = path
        self._map_size = 2 * limit + SLACK
        self._durable = durable
        self._lock = threading.Lock()
        self._overflowed = False
        with self._translated():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_unfinished(path):
                (path / FILE_NAME).unlink(missing_ok=True)
            self._open()
            sync_directories(path, path.parent, path.parent.parent)
            self.life = self._begin_life(shard)

    def _open(self) -> None:
        self._env = lmdb.open(
            str(self.path), map_size=self._map_size, max_dbs=len(DATABASES), mode=0o600,
            sync=self._durable, metasync=self._durable, readahead=False, meminit=False,
        )  # fmt: skip
        self._env.reader_check()
        self._dbs = {name: self._env.open_db(name.encode()) for name in DATABASES}
        self._writable = True

    @contextmanager
    def _translated(self, what: str = "") -> Iterator[None]:
        """What may be wrong with a disk or a file becomes a StoreError, which says what could not be read."""
        try:
            yield
        except (lmdb.Error, OSError, ValueError, struct.error) as error:
            raise StoreError(self.path, f"{what}{': ' if what else ''}{reason_of(error)}") from None

    def _begin_life(self, shard: int) -> int:
        with self._env.begin(write=True) as txn:
            facts = self._dbs["facts"]
            check_facts(self.path, txn.get(b"format", db=facts), txn.get(b"shard", db=facts), shard)
            txn.put(b"format", NUMBER.pack(FORMAT), db=facts)
            txn.put(b"shard", NUMBER.pack(shard), db=facts)
            life = _number(txn.get(b"life", db=facts)) + 1
            txn.put(b"life", NUMBER.pack(life), db=facts)
        return life

    def begin_epoch(self, epoch: int) -> bool:
        """Note the run of the node; whether it is the one that wrote last."""
        with self._translated(), self._env.begin(write=True) as txn:
            same = _number(txn.get(b"epoch", db=self._dbs["facts"])) == epoch
            txn.put(b"epoch", NUMBER.pack(epoch), db=self._dbs["facts"])
            if not same:
                txn.drop(self._dbs["links"], delete=False)
        return same

    # Reading

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """All segments with the ids of their queues, in order. StoreError at one that cannot be read."""
        with self._translated("index"), self._env.begin(db=self._dbs["index"]) as txn:
            for key, record in txn.cursor():
                queue_id, sequence = KEY.unpack(key)
                with self._translated(f"queue {queue_id}, message {sequence}"):
                    segment = unpack_segment(sequence, record)
                yield queue_id, segment

    def numbers(self, name: Literal["leases", "counts"]) -> Iterator[tuple[int, int, int]]:
        """Queue id, priority or sequence, and the number noted for it. StoreError if they cannot be read."""
        with self._translated(name), self._env.begin(db=self._dbs[name]) as txn:
            for key, record in txn.cursor():
                yield *KEY.unpack(key), _number(record)

    def links(self) -> dict[bytes, bytes]:
        """What was noted of each acceptor and other shard. StoreError if it cannot be read."""
        with self._translated("links"), self._env.begin(db=self._dbs["links"]) as txn:
            return dict(txn.cursor())

    def read(self, key: bytes, count: int) -> Batch:
        """The contents of a segment of so many messages. StoreError if they cannot be read."""
        queue_id, sequence = KEY.unpack(key)
        with (
            self._translated(f"contents of queue {queue_id}, message {sequence}"),
            self._lock,
            self._env.begin(db=self._dbs["contents"], buffers=True) as txn,
        ):
            value = txn.get(key)
            if value is None:
                raise ValueError("missing")
            return unpack_contents(count, value)

    # Writing

    def write(self, commit: Commit) -> None:
        """Write a commit whole. StoreError if it cannot be: then nothing of it is there, and it may be tried again."""
        try:
            if not self._writable:
                self._reopen()
            while True:
                try:
                    self._write_once(commit)
                    return
                except lmdb.MapFullError:
                    self._grow()
        except (lmdb.Error, OSError) as error:
            self._mend()
            raise StoreError(self.path, reason_of(error)) from None

    def _write_once(self, commit: Commit) -> None:
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

    def overflowed(self) -> bool:
        """Whether more had to be written, since this was asked last, than the limit allows for."""
        overflowed, self._overflowed = self._overflowed, False
        return overflowed

    def _grow(self) -> None:
        """What is to go needs room as well, or nothing could ever go."""
        self._overflowed = True
        with self._lock:
            self._map_size = int(self._env.info()["map_size"]) + SLACK
            self._env.set_mapsize(self._map_size)

    def sync(self) -> None:
        """Have everything written on the disk. StoreError if that fails."""
        try:
            self._env.sync(True)
        except (lmdb.Error, OSError) as error:
            self._mend()
            raise StoreError(self.path, reason_of(error)) from None

    def _mend(self) -> None:
        """An environment whose last word could not be written refuses everything from then on, reading as well."""
        try:
            with self._env.begin():
                return
        except lmdb.Error:
            with suppress(lmdb.Error, OSError):  # it is tried again with the next write
                self._reopen()

    def _reopen(self) -> None:
        """Open it again, for reading at least. lmdb.Error or OSError if it cannot be written."""
        with self._lock:
            self._env.close()
            self._writable = False
            try:
                self._open()
            except (lmdb.Error, OSError):
                self._env = lmdb.open(
                    str(self.path), map_size=self._map_size, max_dbs=len(DATABASES), readonly=True, lock=False,
                    readahead=False,
                )  # fmt: skip
                self._dbs = {name: self._env.open_db(name.encode(), create=False) for name in DATABASES}
                raise

    def close(self) -> None:
        self._env.close()


def check_facts(path: Path, format: bytes | None, shard: bytes | None, expected: int) -> None:
    """StoreError if what a store says of itself shows that it is not to be used, or not for that shard."""
    if format is not None and _number(format) != FORMAT:
        raise StoreError(path, f"it is of format {_number(format)}, this penstock knows format {FORMAT}")
    if shard is not None and _number(shard) != expected:
        raise StoreError(path, f"it is the store of shard {_number(shard)}")


def is_unfinished(path: Path) -> bool:
    """Whether the making of a store was cut short before it was one: nothing was ever in it."""
    try:
        with (path / FILE_NAME).open("rb") as file:
            head = file.read(LEAST)
        return len(head) < LEAST or not any(head)
    except FileNotFoundError:
        return True


def sync_directories(*paths: Path) -> None:
    """Files and directories that were made in these last. OSError if that cannot be ensured."""
    for path in paths:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def reason_of(error: Exception) -> str:
    """Why a call failed, without the name of the call."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    return text.partition(": ")[2] or text if text.startswith("mdb_") else text


def _number(record: bytes | None) -> int:
    return 0 if record is None else NUMBER.unpack(record)[0]
