"""A check of a store before a process that must survive maps it, done in a process of its own.

Damage shows as an error, or ends that process by a signal. Everything but contents is read: contents are checked when
they are used.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from penstock.files.apart import EndedError, apart
from shard.contents.errors import DamagedError, StoreError
from shard.store.checkpoint import Checkpoint
from shard.store.environment import FILE_NAME, is_unfinished, reason_of, translated
from shard.store.facts import facts_of
from shard.store.pages import Pages
from shard.store.sealed_cy import SEALED, TOTALS, Sums, summed, unseal
from shard.store.stored import DATABASES, KEY, unpack_index


class Facts(NamedTuple):
    """The facts of a store; `node` is None if an older penstock wrote it. `records` counts segments and unfinished
    transactions.
    """

    node: int | None
    epoch: int
    commits: int
    records: int


def check_store(path: Path, shard: int) -> None:
    """Check a store in a process of its own. Raises StoreError if it cannot be used."""
    if not is_unfinished(path):
        try:
            apart(partial(probe, path, shard), (StoreError,))
        except EndedError as error:
            raise DamagedError(path, str(error)) from None


def probe(path: Path, shard: int) -> Facts:
    """Check a store in this process. Raises StoreError if it cannot be used, has an unknown format, or is another
    shard's.
    """
    with translated(path):
        Checkpoint(path).restore()
    try:
        with (
            lmdb.open(
                str(path), readonly=True, lock=False, max_dbs=len(DATABASES), readahead=False, create=False
            ) as env,
            env.begin(buffers=True) as txn,
        ):
            facts = Probe(path, env, txn).check(shard)
        with Pages(path / FILE_NAME) as pages:
            pages.check_free()
        return facts
    except (lmdb.Error, ValueError, struct.error) as error:
        raise DamagedError(path, f"it is damaged: {reason_of(error)}") from None
    except OSError as error:
        raise StoreError(path, reason_of(error)) from None


class Probe:
    """An open store that is being checked."""

    def __init__(self, path: Path, env: Any, txn: Any) -> None:
        self.path = path
        self.txn = txn
        self.dbs = {}
        for name in DATABASES:
            try:
                self.dbs[name] = env.open_db(name.encode(), txn, create=False)
            except lmdb.NotFoundError:
                continue  # its creation was cut short, or it has an older format
        nbytes = (path / FILE_NAME).stat().st_size
        self.cut = nbytes < (env.info()["last_pgno"] + 1) * env.stat()["psize"]

    def check(self, shard: int) -> Facts:
        """Check everything. Raises ValueError, struct.error or lmdb.Error if anything is damaged."""
        if self.cut and "facts" not in self.dbs:
            raise ValueError("the file is cut short")  # a page of zeros has no names
        found = facts_of(self.path, self.txn, self.dbs["facts"], shard) if "facts" in self.dbs else {}
        self.count_records()
        if (format := found.get("format", 1)) > 1:
            self.require((*SEALED, "contents", TOTALS))
            self.compare_sums(summed(format))
            self.compare_contents()
        records = sum(self.entries(name) for name in ("index", "prepared", "decisions") if name in self.dbs)
        return Facts(found.get("node"), found.get("epoch", 0), found.get("commits", 0), records)

    def require(self, names: Iterable[str]) -> None:
        """Raise ValueError if a database is missing: its name is damaged."""
        for name in names:
            if name not in self.dbs:
                raise ValueError(f"the table {name} is missing")

    def entries(self, name: str) -> int:
        return int(self.txn.stat(self.dbs[name])["entries"])

    def count_records(self) -> None:
        """Read all records. Raises ValueError if a database has more or fewer than it says."""
        for name, db in self.dbs.items():
            count = 0
            for _, value in self.txn.cursor(db):
                count += 1
                if self.cut and len(value):
                    value[-1]  # if the file ends before this byte, the access ends the process
            if count != self.entries(name):
                raise ValueError(f"it has {count} of {self.entries(name)} records of {name}")

    def compare_sums(self, names: Collection[str]) -> None:
        """Compare each record with its checksum, and each queue and table with its sums, for the databases in
        `names`.
        """
        sums = Sums()
        for name in SEALED:
            for key, value in self.txn.cursor(self.dbs[name]):
                unseal(name, bytes(key), value)
                if name in names:
                    sums.replace(name, bytes(key), None, value)
        for owner, value in self.txn.cursor(self.dbs[TOTALS]):
            sums.compare(bytes(owner), value)
        for text in sums.rest():
            raise ValueError(text)

    def compare_contents(self) -> None:
        """Check that contents exist and have the right length."""
        both = (self.txn.cursor(self.dbs[name]) for name in ("index", "contents"))
        for of_index, of_contents in zip_longest(*both):
            key = bytes((of_index or of_contents)[0])
            queue_id, sequence = KEY.unpack(key)
            if of_index is None or of_contents is None or of_index[0] != of_contents[0]:
                raise ValueError(f"queue {queue_id}, message {sequence}: a segment without contents, or the reverse")
            segment, _ = unpack_index(key, of_index[1])
            if not segment.damaged and segment.nbytes != len(of_contents[1]):
                raise ValueError(f"queue {queue_id}, message {sequence}: its contents are damaged")
