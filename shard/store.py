"""The store of one shard, in DATA/shards/INDEX, written by commits (`shard/journal.py`).

`write` and `sync` block and belong to one thread of their own; reading goes on beside them, from any thread. What is
where is said in `shard/stored.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import lmdb

from penstock.batch_cy import Batch
from shard.checkpoint import Checkpoint
from shard.checkpointed import Checkpointed
from shard.environment import Environment, StoreError, sync_directories, translated
from shard.journal import Commit, Pieces, Records, Segments
from shard.segment_cy import Segment
from shard.stored import (
    DATABASES,
    FORMAT,
    KEY,
    NUMBER,
    SPILL_DATABASES,
    Held,
    unpack_contents,
    unpack_held,
    unpack_held_key,
    unpack_segment,
)

Value = bytes | memoryview | None


class Store:
    """An open store. With `durable` each write is on the disk when it returns, else when `sync` does.

    `epoch` is the run of the node; the store was `restarted` if another one wrote last: then nothing is left of what
    was spilled, and of links. StoreError if it cannot be opened, is of a format that this version does not know, or
    another shard's.
    """

    def __init__(self, path: Path, limit: int, durable: bool, epoch: int, shard: int = 0) -> None:
        self.path = path
        self._checkpoint = Checkpoint(path)
        with translated(path):
            self._checkpoint.restore()
            if durable:
                self._checkpoint.dismiss()
        if durable:
            self._kept = Environment(path, DATABASES, limit, True)
        else:
            self._kept = Checkpointed(path, DATABASES, limit, self._checkpoint)
        try:
            with translated(path):
                sync_directories(path, path.parent, path.parent.parent)
            self._begin_life(epoch, shard)
            if self.restarted:
                shutil.rmtree(path / "spill", ignore_errors=True)
            self._spilled = Environment(path / "spill", SPILL_DATABASES, limit, False)
        except StoreError:
            self._kept.close()
            raise

    def _begin_life(self, epoch: int, shard: int) -> None:
        def begin(txn: lmdb.Transaction) -> None:
            facts = self._kept["facts"]
            check_facts(self.path, txn.get(b"format", db=facts), txn.get(b"shard", db=facts), shard)
            self.life = _number(txn.get(b"life", db=facts)) + 1
            self.restarted = _number(txn.get(b"epoch", db=facts)) != epoch
            if self.restarted:
                txn.drop(self._kept["links"], delete=False)
            for name, number in ((b"format", FORMAT), (b"shard", shard), (b"life", self.life), (b"epoch", epoch)):
                txn.put(name, NUMBER.pack(number), db=facts)

        self._kept.write(begin)

    # Reading

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """All segments with the ids of their queues. StoreError at one that cannot be read."""
        for environment, spilled in ((self._kept, False), (self._spilled, True)):
            with environment.reading("index") as txn:
                for key, record in txn.cursor(environment["index"]):
                    queue_id, sequence = KEY.unpack(key)
                    with translated(self.path, f"queue {queue_id}, message {sequence}"):
                        segment = unpack_segment(sequence, bytes(record))
                    segment.spilled = spilled
                    yield queue_id, segment

    def numbers(self, name: Literal["leases", "counts"]) -> Iterator[tuple[int, int, int]]:
        """Queue id, priority or sequence, and the number noted for it. StoreError if they cannot be read."""
        with self._kept.reading(name) as txn:
            for key, record in txn.cursor(self._kept[name]):
                yield *KEY.unpack(key), _number(record)

    def held(self) -> Iterator[tuple[int, str, Held]]:
        """Queue id and id of each lease, and what it holds. StoreError if they cannot be read."""
        with self._kept.reading("held") as txn:
            for key, record in txn.cursor(self._kept["held"]):
                yield *unpack_held_key(bytes(key)), unpack_held(bytes(record))

    def links(self) -> dict[bytes, bytes]:
        """What was noted of each acceptor and other shard. StoreError if it cannot be read."""
        with self._kept.reading("links") as txn:
            return {bytes(identity): bytes(record) for identity, record in txn.cursor(self._kept["links"])}

    def transactions(self, name: Literal["prepared", "decisions"]) -> Iterator[tuple[bytes, bytes]]:
        """Transactions, and what was noted of each. StoreError if that cannot be read."""
        with self._kept.reading(name) as txn:
            for key, record in txn.cursor(self._kept[name]):
                yield bytes(key), bytes(record)

    def read(self, key: bytes, count: int, spilled: bool) -> Batch:
        """The contents of a segment of so many messages. StoreError if they cannot be read."""
        queue_id, sequence = KEY.unpack(key)
        environment = self._spilled if spilled else self._kept
        with environment.reading(f"contents of queue {queue_id}, message {sequence}") as txn:
            value = txn.get(key, db=environment["contents"])
            if value is None:
                raise ValueError("missing")
            return unpack_contents(count, value)

    # Writing

    def write(self, commit: Commit) -> None:
        """Write a commit. StoreError if it cannot be: it may be tried again as it is. What is kept is written whole."""
        if commit.spilled.index:
            self._spilled.write(lambda txn: _put_segments(txn, self._spilled, commit.spilled))
        if commit.promises:
            self._kept.write(lambda txn: self._put(txn, commit))

    def _put(self, txn: lmdb.Transaction, commit: Commit) -> None:
        _put_segments(txn, self._kept, commit.kept)
        _put_records(txn, self._kept["leases"], commit.leases)
        _put_records(txn, self._kept["counts"], commit.counts)
        _put_records(txn, self._kept["held"], commit.held)
        _put_records(txn, self._kept["links"], commit.links)
        _put_pieces(txn, self._kept["prepared"], commit.prepared)
        _put_records(txn, self._kept["decisions"], commit.decisions)

    def overflowed(self) -> bool:
        """Whether more had to be written, since this was asked last, than the limit allows for."""
        return self._kept.overflowed() | self._spilled.overflowed()

    def has_room(self, was_full: bool) -> bool:
        """Whether the disk has room for more; `was_full`: it had none the last time. StoreError if it is not known."""
        return self._kept.has_room(was_full)

    def sync(self) -> None:
        """Have everything written on the disk but what is spilled. StoreError if that fails."""
        self._kept.sync()

    def limit(self, octets: int) -> None:
        """What it may have from now on."""
        self._kept.limit(octets)
        self._spilled.limit(octets)

    def is_empty(self) -> bool:
        """Whether it has no message, no lease and no transaction. StoreError if it cannot be read."""
        names = ("index", "contents", "held", "prepared", "decisions")
        return not any(self._kept.entries(name) for name in names)

    def discard(self) -> None:
        """Close it and have it gone. StoreError if that fails."""
        self.close()
        with translated(self.path):
            shutil.rmtree(self.path)
            sync_directories(self.path.parent)

    def end(self) -> None:
        """Close it with everything on the disk. StoreError if that fails."""
        self._kept.sync()
        self.close()
        with translated(self.path):
            self._checkpoint.dismiss()

    def close(self) -> None:
        self._kept.close()
        self._spilled.close()


def check_facts(path: Path, format: Value, shard: Value, expected: int) -> None:
    """StoreError if what a store says of itself shows that it is not to be used, or not for that shard."""
    if format is not None and _number(format) != FORMAT:
        raise StoreError(path, f"it is of format {_number(format)}, this penstock knows format {FORMAT}")
    if shard is not None and _number(shard) != expected:
        raise StoreError(path, f"it is the store of shard {_number(shard)}")


def _put_segments(txn: lmdb.Transaction, environment: Environment, segments: Segments) -> None:
    _put_records(txn, environment["index"], segments.index)
    _put_pieces(txn, environment["contents"], segments.contents)


def _put_pieces(txn: lmdb.Transaction, db: Any, records: Mapping[bytes, Pieces | None]) -> None:
    for key, pieces in records.items():
        if pieces is None:
            txn.delete(key, db=db)
        else:
            txn.put(key, b"".join(pieces), db=db)


def _put_records(txn: lmdb.Transaction, db: Any, records: Records) -> None:
    for key, record in records.items():
        if record is None:
            txn.delete(key, db=db)
        else:
            txn.put(key, record, db=db)


def _number(record: Value) -> int:
    number: int = 0 if record is None else NUMBER.unpack(record)[0]
    return number
