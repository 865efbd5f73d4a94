# cython: wraparound=True, annotation_typing=False
"""Checksums of a store's records, and sums: for each queue and each table of transactions, the number of its records
and the sum of their checksums.

A record is followed by XXH3-64 of the database's name, the key and the record (8, big-endian): under another key, or in
another database, it is as wrong as with other bytes. A record that is missing, or older than the rest, shows in the
sums, which change in the same transaction.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from xxhash import xxh3_64_digest

from shard.contents.errors import DamagedError
from shard.store.environment import Environment

CHECKSUM = 8
"""Bytes of a checksum, big-endian."""
TOTAL = Struct("<QQ")
TOTALS = "totals"
TABLES = {"prepared": b"parts", "decisions": b"decided"}
"""The databases that are counted as a whole, and the keys of their sums: none is as long as the id of a queue."""
SUMMED = ("index", "leases", "counts", "held", *TABLES)
"""The databases whose records are counted; if not as a whole, their keys begin with the id of a queue (8)."""
SEALED = (*SUMMED, "links")
_ALL = (1 << 64) - 1
_NAMES = {name: name.encode() for name in (*SEALED, TOTALS, "facts")}

Total = tuple[int, int]
"""The number of records, and the sum of their checksums modulo 2**64."""
Value = bytes | memoryview

checksum = xxh3_64_digest


def seal(name: str, key: bytes, record: bytes) -> bytes:
    """The record as it is written."""
    return record + xxh3_64_digest(_NAMES[name] + key + record)


def unseal(name: str, key: bytes, value: Value) -> bytes:
    """The record in a sealed value. Raises ValueError if the value is not as it was written."""
    record = bytes(value[:-CHECKSUM])
    if len(value) < CHECKSUM or seal(name, key, record) != value:
        raise ValueError(f"a record of {name} is damaged")
    return record


def summed(format: int) -> tuple[str, ...]:
    """The databases that a store of that format keeps count of."""
    return {1: (), 2: tuple(name for name in SUMMED if name not in TABLES)}.get(format, SUMMED)


class Sums:
    """Changes of the sums of queues and tables, or the sums themselves, by key of `totals`."""

    def __init__(self) -> None:
        self.changes: dict[bytes, Total] = {}

    def replace(self, name: str, key: bytes, old: Value | None, new: Value | None) -> None:
        """Count a record of a database (as it is written) in place of another; None where there is none."""
        owner = TABLES.get(name) or key[:8]
        count, total = self.changes.get(owner, (0, 0))
        if old is not None:
            count, total = count - 1, total - int.from_bytes(old[-CHECKSUM:], "big")
        if new is not None:
            count, total = count + 1, total + int.from_bytes(new[-CHECKSUM:], "big")
        self.changes[owner] = count, total & _ALL

    def compare(self, owner: bytes, value: Value) -> None:
        """Check the stored sums of an owner, once. Raises ValueError if they differ from the records found."""
        count, total = TOTAL.unpack(unseal(TOTALS, owner, value))
        found = self.changes.pop(owner, (0, 0))
        if found != (count, total):
            what = f"{found[0]} of {count} records" if found[0] != count else "records from another time"
            raise ValueError(f"{_named(owner)} has {what}")

    def rest(self) -> list[str]:
        """Complaints about owners whose sums were never compared."""
        return [f"{_named(owner)} has {count} of 0 records" for owner, (count, _) in self.changes.items() if count]


class Totals:
    """The sums of an environment, for its writer: those read or written before are not read again."""

    def __init__(self) -> None:
        self._known: dict[bytes, Total] = {}
        self._written: dict[bytes, Total] = {}

    def write(self, txn: Any, environment: Environment, sums: Sums) -> None:
        """Update the stored sums in a transaction. Raises DamagedError if they are not as they were written."""
        db = environment[TOTALS]
        self._written = {}
        for owner, (more, plus) in sums.changes.items():
            count, total = self._known.get(owner) or _stored(txn, environment, owner)
            after = self._written[owner] = count + more, (total + plus) & _ALL
            if after[0] > 0:
                txn.put(owner, seal(TOTALS, owner, TOTAL.pack(*after)), db=db)
            elif count > 0:
                txn.delete(owner, db=db)

    def committed(self) -> None:
        """The transaction of the last `write` was committed."""
        self._known.update(self._written)
        for owner, (count, _) in self._written.items():
            if not count:
                del self._known[owner]


def _stored(txn: Any, environment: Environment, owner: bytes) -> Total:
    stored = txn.get(owner, db=environment[TOTALS])
    if stored is None:
        return 0, 0
    try:
        count, total = TOTAL.unpack(unseal(TOTALS, owner, stored))
    except ValueError as error:
        raise DamagedError(environment.path, str(error)) from None
    return count, total


def _named(owner: bytes) -> str:
    for name, key in TABLES.items():
        if owner == key:
            return f"the table {name}"
    return f"queue {int.from_bytes(owner, 'big')}"
