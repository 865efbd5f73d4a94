"""The upgrade of a store from an older format: from 1, records get checksums and queues their sums; from 2, the tables
of transactions get their sums.

The upgrade is one transaction, with the new format number: if it is cut short the store stays as it was, and the
upgrade begins anew.
"""

from __future__ import annotations

from typing import Any

from shard.store.environment import Environment
from shard.store.sealed_cy import SEALED, SUMMED, Sums, Totals, checksum, seal, summed
from shard.store.stored import KEY, unpack_segment


def take_over(txn: Any, environment: Environment, format: int) -> None:
    """Upgrade a store. Raises ValueError if the contents of a segment do not have the right length."""
    if format == 1:
        _seal_all(txn, environment)
    sums = Sums()
    for name in SUMMED:
        if name not in summed(format):
            for key, value in txn.cursor(environment[name]):
                sums.replace(name, bytes(key), None, value)
    Totals().write(txn, environment, sums)


def _seal_all(txn: Any, environment: Environment) -> None:
    for name in SEALED:
        db = environment[name]
        for key in [bytes(key) for key in txn.cursor(db).iternext(keys=True, values=False)]:
            record = bytes(txn.get(key, db=db))
            if name == "index":
                record += _checksum_of_contents(txn, environment, key, record)
            txn.put(key, seal(name, key, record), db=db)


def _checksum_of_contents(txn: Any, environment: Environment, key: bytes, record: bytes) -> bytes:
    queue_id, sequence = KEY.unpack(key)
    value = txn.get(key, db=environment["contents"])
    if value is None or len(value) != unpack_segment(sequence, record).nbytes:
        raise ValueError(f"contents of queue {queue_id}, message {sequence}: damaged")
    return checksum(value)
