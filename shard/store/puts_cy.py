# cython: wraparound=True, annotation_typing=False
"""Puts the records of a commit into an LMDB transaction.

Compiled because the writer's thread runs it: the loop stands still for as long as that thread holds the interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shard.contents.errors import DamagedError
from shard.store.environment import Environment
from shard.store.sealed_cy import CHECKSUM, Sums, checksum, seal
from shard.store.stored import KEY

if TYPE_CHECKING:
    import lmdb

    from shard.store.journal import Records, Segments


def put_segments(txn: lmdb.Transaction, environment: Environment, segments: Segments, sums: Sums) -> None:
    """Write segments. The checksum of contents goes into the index; for unchanged contents the stored one stays."""
    db = environment["contents"]
    checksums: dict[bytes, bytes] = {}
    for key, parts in segments.contents.items():
        if parts is None:
            txn.delete(key, db=db)
        else:
            value = b"".join(parts)
            checksums[key] = checksum(value)
            txn.put(key, value, db=db)
    index = environment["index"]
    records: Records = {}
    for key, record in segments.index.items():
        if record is not None and key not in checksums:
            before = txn.get(key, db=index)
            if before is None:
                raise DamagedError(environment.path, "queue {}, message {}: missing".format(*KEY.unpack(key)))
            checksums[key] = bytes(before[-2 * CHECKSUM : -CHECKSUM])
        records[key] = None if record is None else record + checksums[key]
    put_records(txn, environment, "index", records, sums)


def put_records(txn: lmdb.Transaction, environment: Environment, name: str, records: Records, sums: Sums) -> None:
    """Write or delete the records of one database, and update the sums."""
    db = environment[name]
    for key, record in records.items():
        if record is None:
            sums.replace(name, key, txn.pop(key, db=db), None)
        else:
            value = seal(name, key, record)
            sums.replace(name, key, txn.replace(key, value, db=db), value)


def put_links(txn: lmdb.Transaction, db: Any, records: Records) -> None:
    """Write or delete records of links, which are in no sum: they are written with almost every commit."""
    for key, record in records.items():
        if record is None:
            txn.delete(key, db=db)
        else:
            txn.put(key, seal("links", key, record), db=db)
