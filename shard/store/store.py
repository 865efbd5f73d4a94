"""The store of one shard, in DATA/shards/INDEX, written by commits (`shard/store/journal.py`).

`write` and `sync` block and belong to one thread of their own; reading goes on beside them, from any thread. The format
is in `shard/store/stored.py`.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Literal

import lmdb

from penstock.batch.batch_cy import Batch
from penstock.files.directories import private, sync_directories
from penstock.files.witness import Witness
from shard.contents.errors import DamagedError, StoreError
from shard.contents.segment_cy import Segment
from shard.store.checkpoint import Checkpoint
from shard.store.checkpointed import Checkpointed
from shard.store.environment import Environment, is_unfinished, translated
from shard.store.facts import facts_of, put_fact
from shard.store.journal import Commit, Pieces, Records
from shard.store.puts_cy import put_links, put_records, put_segments
from shard.store.sealed_cy import Sums, Totals, checksum, unseal
from shard.store.stored import (
    DATABASES,
    FORMAT,
    KEY,
    NUMBER,
    SPILL_DATABASES,
    Held,
    unpack_contents,
    unpack_held,
    unpack_held_key,
    unpack_index,
)
from shard.store.takeover import take_over

DAMAGED_FOLDER = "damaged"
"""The folder for damaged segments: files QUEUE-SEQUENCE with the size of the index record (4), the record, contents."""
LENGTH = Struct("<I")


class Store:
    """An open store. With `durable` each write is on the disk when it returns, otherwise when `sync` does.

    `epoch` is the run of the node; the store was `restarted` if another run wrote last: then spilled contents and links
    are dropped. Raises StoreError if it cannot be opened, has a format that this version does not know, is another
    shard's, or is not the one that its `witness` knows.
    """

    def __init__(
        self, path: Path, limit: int, durable: bool, epoch: int, shard: int = 0, witness: Witness | None = None
    ) -> None:
        self.path = path
        self._durable = durable
        self._totals, self._spilled_totals = Totals(), Totals()
        self._witness = witness
        self._kept = self._open_kept(limit)
        try:
            self._begin(epoch, shard)
            self._kept.sync()
            if witness is not None:
                with translated(witness.path):
                    self._update_witness(self.commits)
            self._spilled = self._open_spilled(limit)
        except StoreError:
            self._kept.close()
            raise

    def _open_kept(self, limit: int) -> Environment:
        """Open the environment that outlives the run of the node, in the state in which a restart of the system left
        it.
        """
        path = self.path
        with translated(path):
            if self._witness is not None and is_unfinished(path) and self._witness.seen() is not None:
                raise StoreError(path, "it is missing")
        self._checkpoint = Checkpoint(path)
        with translated(path):
            self._checkpoint.restore()
            if self._durable:
                self._checkpoint.dismiss()
        if self._durable:
            kept = Environment(path, DATABASES, limit, True)
        else:
            kept = Checkpointed(path, DATABASES, limit, self._checkpoint)
        try:
            with translated(path):
                sync_directories(path, path.parent, path.parent.parent)
        except StoreError:
            kept.close()
            raise
        return kept

    def _open_spilled(self, limit: int) -> Environment:
        """Open the environment of spilled contents, without those of an earlier run."""
        if self.restarted:
            shutil.rmtree(self.path / "spill", ignore_errors=True)
        return Environment(self.path / "spill", SPILL_DATABASES, limit, False)

    def _begin(self, epoch: int, shard: int) -> None:
        def begin(txn: lmdb.Transaction) -> None:
            facts = self._kept["facts"]
            found = facts_of(self.path, txn, facts, shard)
            if (format := found.get("format", FORMAT)) < FORMAT:
                take_over(txn, self._kept, format)
            self._recognise(found.get("node"), found.get("commits", 0))
            self.starts = found.get("life", 0) + 1
            self.restarted = found.get("epoch", 0) != epoch
            self.commits = found.get("commits", 0) + 1
            if self.restarted:
                txn.drop(self._kept["links"], delete=False)
            found |= {"format": FORMAT, "shard": shard, "life": self.starts, "epoch": epoch, "commits": self.commits}
            if self._witness is not None:
                found["node"] = self._witness.node
            for name, number in found.items():
                put_fact(txn, facts, name, number)

        with translated(self.path):
            self._kept.write(begin)

    def _recognise(self, node: int | None, commits: int) -> None:
        complaint = None if self._witness is None else self._witness.complaint(node, commits)
        if complaint is not None:
            raise StoreError(self.path, complaint)

    def _update_witness(self, flushed: int) -> None:
        """Record in the witness how far the store has come. Raises OSError only for the first record."""
        if self._witness is not None:
            self._witness.record(self.commits, flushed)

    # Reading

    def segments(self) -> Iterator[tuple[int, Segment]]:
        """All segments with the ids of their queues. Raises StoreError at one that cannot be read."""
        for environment, spilled in ((self._kept, False), (self._spilled, True)):
            with environment.reading("index") as txn:
                for key, value in txn.cursor(environment["index"]):
                    queue_id, sequence = KEY.unpack(key)
                    with translated(self.path, f"queue {queue_id}, message {sequence}"):
                        segment, _ = unpack_index(bytes(key), value)
                    segment.spilled = spilled
                    if not segment.damaged:
                        yield queue_id, segment

    def numbers(self, name: Literal["leases", "counts"]) -> Iterator[tuple[int, int, int]]:
        """Queue id, priority or sequence, and the number recorded for it. Raises StoreError if they cannot be read."""
        with self._kept.reading(name) as txn:
            for key, value in txn.cursor(self._kept[name]):
                yield *KEY.unpack(key), _number(unseal(name, bytes(key), value))

    def held(self) -> Iterator[tuple[int, str, Held]]:
        """Queue id, id and contents of each lease. Raises StoreError if they cannot be read."""
        with self._kept.reading("held") as txn:
            for key, value in txn.cursor(self._kept["held"]):
                yield *unpack_held_key(bytes(key)), unpack_held(unseal("held", bytes(key), value))

    def links(self) -> dict[bytes, bytes]:
        """The record of each acceptor and other shard. Raises StoreError if they cannot be read."""
        with self._kept.reading("links") as txn:
            records = txn.cursor(self._kept["links"])
            return {bytes(identity): unseal("links", bytes(identity), value) for identity, value in records}

    def transactions(self, name: Literal["prepared", "decisions"]) -> Iterator[tuple[bytes, bytes]]:
        """Each transaction with its record. Raises StoreError if they cannot be read."""
        with self._kept.reading(name) as txn:
            for key, record in txn.cursor(self._kept[name]):
                yield bytes(key), unseal(name, bytes(key), record)

    def read(self, key: bytes, count: int, spilled: bool) -> Batch:
        """The contents of a segment of `count` messages. Raises StoreError if they cannot be read, DamagedError if they
        are not as they were written.
        """
        queue_id, sequence = KEY.unpack(key)
        environment = self._spilled if spilled else self._kept
        what = f"contents of queue {queue_id}, message {sequence}"
        with environment.reading(what) as txn:
            try:
                return unpack_contents(count, _verified(txn, environment, key))
            except (ValueError, struct.error, lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
                damaged = DamagedError(self.path, f"{what}: {error}")
                damaged.key, damaged.spilled = key, spilled
                raise damaged from None

    def set_aside(self, damaged: DamagedError) -> Path:
        """Write the remains of a damaged segment to a file of its own and return its path. Raises StoreError on
        failure.
        """
        assert damaged.key is not None
        environment = self._spilled if damaged.spilled else self._kept
        path = self.path / DAMAGED_FOLDER / "{}-{}".format(*KEY.unpack(damaged.key))
        with environment.reading(str(path)) as txn:
            record = txn.get(damaged.key, db=environment["index"]) or b""
            value = txn.get(damaged.key, db=environment["contents"]) or b""
            with suppress(ValueError, struct.error):
                if len(value) != unpack_index(damaged.key, record)[0].nbytes:
                    value = b""  # its length is unknown
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with open(path, "wb", opener=private) as file:
                file.write(LENGTH.pack(len(record)) + record)
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            sync_directories(path.parent)
        return path

    # Writing

    def write(self, commit: Commit) -> None:
        """Write a commit. Raises StoreError on failure: it may be retried unchanged. The kept part is written whole."""
        if commit.spilled.index:
            self._spilled.write(lambda txn: self._put_spilled(txn, commit))
            self._spilled_totals.committed()
        if commit.promises:
            self._kept.write(lambda txn: self._put(txn, commit))
            self._totals.committed()
            self.commits += 1
            self._update_witness(self.commits if self._durable else 0)

    def _put_spilled(self, txn: lmdb.Transaction, commit: Commit) -> None:
        sums = Sums()
        put_segments(txn, self._spilled, commit.spilled, sums)
        self._spilled_totals.write(txn, self._spilled, sums)

    def _put(self, txn: lmdb.Transaction, commit: Commit) -> None:
        sums = Sums()
        put_segments(txn, self._kept, commit.kept, sums)
        put_records(txn, self._kept, "leases", commit.leases, sums)
        put_records(txn, self._kept, "counts", commit.counts, sums)
        put_records(txn, self._kept, "held", commit.held, sums)
        put_records(txn, self._kept, "prepared", _joined(commit.prepared), sums)
        put_records(txn, self._kept, "decisions", commit.decisions, sums)
        put_links(txn, self._kept["links"], commit.links)
        self._totals.write(txn, self._kept, sums)
        put_fact(txn, self._kept["facts"], "commits", self.commits + 1)

    def overflowed(self) -> bool:
        """Whether more had to be written, since the last call, than the limit allows."""
        return self._kept.overflowed() | self._spilled.overflowed()

    def has_room(self, was_full: bool) -> bool:
        """Whether the disk has room for more; `was_full`: it had none the last time. Raises StoreError if that is
        unknown.
        """
        return self._kept.has_room(was_full)

    def sync(self) -> None:
        """Flush everything but the spill to the disk. Raises StoreError if that fails."""
        commits = self.commits
        self._kept.sync()
        self._update_witness(commits)

    def limit(self, nbytes: int) -> None:
        """Set the size that the store may have, in bytes."""
        self._kept.limit(nbytes)
        self._spilled.limit(nbytes)

    def is_empty(self) -> bool:
        """Whether the store has no message, no lease and no transaction. Raises StoreError if it cannot be read."""
        names = ("index", "contents", "held", "prepared", "decisions")
        return not any(self._kept.entries(name) for name in names)

    def discard(self) -> None:
        """Close the store and delete it. Raises StoreError if that fails."""
        self.close()
        with translated(self.path):
            if self._witness is not None:
                self._witness.forget()
            shutil.rmtree(self.path)
            sync_directories(self.path.parent)

    def end(self) -> None:
        """Close the store with everything on the disk. Raises StoreError if that fails."""
        self._kept.sync()
        self.close()
        with translated(self.path):
            self._checkpoint.dismiss()

    def close(self) -> None:
        self._kept.close()
        self._spilled.close()
        if self._witness is not None:
            self._witness.close()


def _verified(txn: lmdb.Transaction, environment: Environment, key: bytes) -> bytes | memoryview:
    """The contents of a segment. Raises ValueError if they are not as they were written; a wrong size is not read at
    all.
    """
    record, value = txn.get(key, db=environment["index"]), txn.get(key, db=environment["contents"])
    if record is None or value is None:
        raise ValueError("missing")
    segment, expected = unpack_index(key, record)
    if len(value) != segment.nbytes or checksum(value) != expected:
        raise ValueError("damaged")
    return value


def _joined(records: Mapping[bytes, Pieces | None]) -> Records:
    return {key: None if pieces is None else b"".join(pieces) for key, pieces in records.items()}


def _number(record: bytes) -> int:
    number: int = NUMBER.unpack(record)[0]
    return number
