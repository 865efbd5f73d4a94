"""Stores of older formats: each is upgraded once, with everything in it, and is checked like any other from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lmdb
import pytest

from shard.contents.errors import DamagedError, StoreError
from shard.store.probe import check_store, probe
from shard.store.sealed_cy import TABLES
from shard.store.stored import DATABASES, NUMBER
from tests.shard.store.test_probe import with_transactions
from tests.shard.store.test_store import OpenedStore, bodies
from tests.shard.test_damage import alter, damage, drained, filled

OLD_DATABASES = [name for name in DATABASES if name != "totals"]


def as_format_1(path: Path) -> None:
    """Convert a store to format 1: no checksums and no totals."""
    with lmdb.open(str(path), max_dbs=len(DATABASES), map_size=1 << 24) as env:
        dbs = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            for name in OLD_DATABASES:
                for key, value in list(txn.cursor(dbs[name])):
                    if name != "contents" and key != b"format":
                        txn.put(key, value[: -16 if name == "index" else -8], db=dbs[name])
            txn.put(b"format", NUMBER.pack(1), db=dbs["facts"])
            txn.drop(dbs["totals"])


def test_a_store_of_format_1_is_taken_over_once(tmp_path: Path) -> None:
    filled(tmp_path, (b"a", b"b"), (b"c",))
    as_format_1(tmp_path)
    assert probe(tmp_path, 0).records == 2
    for _ in range(2):
        opened = OpenedStore(tmp_path)
        assert [body for body, _ in bodies(opened.queue)] == [b"a", b"b", b"c"]
        opened.end()
        check_store(tmp_path, 0)
    damage(tmp_path, 0)
    opened = OpenedStore(tmp_path)
    assert drained(opened)[0] == [b"c"]
    opened.end()


def test_a_store_of_format_2_is_taken_over_once(tmp_path: Path) -> None:
    """Format 2 had no sums of transactions: those found are counted, and the count is kept from then on."""
    filled(tmp_path, (b"a",))
    with_transactions(tmp_path)

    def old(txn: Any, dbs: dict[str, Any]) -> None:
        for owner in TABLES.values():
            assert txn.delete(owner, db=dbs["totals"])
        txn.put(b"format", NUMBER.pack(2), db=dbs["facts"])

    alter(tmp_path, old)
    assert probe(tmp_path, 0).records == 5
    for _ in range(2):
        opened = OpenedStore(tmp_path)
        assert len(dict(opened.store.transactions("prepared"))) == 2
        opened.end()
        assert probe(tmp_path, 0).records == 5

    def lose(txn: Any, dbs: dict[str, Any]) -> None:
        txn.drop(dbs["prepared"], delete=False)

    alter(tmp_path, lose)
    with pytest.raises(DamagedError, match="the table prepared has 0 of 2 records"):
        probe(tmp_path, 0)


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    """No checksum of contents can be trusted if their length differs from their record."""
    filled(tmp_path, (b"a", b"b"), (b"c",))
    as_format_1(tmp_path)

    def contents() -> dict[str, list[tuple[bytes, bytes]]]:
        found: dict[str, list[tuple[bytes, bytes]]] = {}

        def read(txn: Any, dbs: dict[str, Any]) -> None:
            found.update({name: list(txn.cursor(db)) for name, db in dbs.items()})

        alter(tmp_path, read)
        return found

    def cut(txn: Any, dbs: dict[str, Any]) -> None:
        key, value = list(txn.cursor(dbs["contents"]))[1]
        txn.put(key, value[:-1], db=dbs["contents"])

    alter(tmp_path, cut)
    before = contents()
    with pytest.raises(StoreError, match=f"contents of queue 7, message {(1 << 36) + 2}: damaged$"):
        OpenedStore(tmp_path)
    assert contents() == before
