"""The check of a store before a shard maps it: it names any damage, and no damage ends the calling process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from penstock.files.apart import EndedError, apart
from shard.contents.errors import DamagedError, StoreError
from shard.contents.queue_cy import UNLIMITED
from shard.store.environment import LEAST
from shard.store.probe import check_store, probe
from shard.store.sealed_cy import seal
from shard.store.stored import NUMBER, TRANSACTION
from tests.shard.store.test_store import OpenedStore, batch
from tests.shard.test_damage import alter, filled


def changed(name: str) -> Callable[[Any, dict[str, Any]], None]:
    def change(txn: Any, dbs: dict[str, Any]) -> None:
        key, value = next(iter(txn.cursor(dbs[name])))
        txn.put(key, bytes([value[0] ^ 1]) + value[1:], db=dbs[name])

    return change


def removed(*names: str) -> Callable[[Any, dict[str, Any]], None]:
    def change(txn: Any, dbs: dict[str, Any]) -> None:
        for name in names:
            txn.delete(next(iter(txn.cursor(dbs[name])))[0], db=dbs[name])

    return change


def without(name: str) -> Callable[[Any, dict[str, Any]], None]:
    """Delete a table, as a byte changed in its name does."""
    return lambda txn, dbs: txn.drop(dbs[name])


def older(txn: Any, dbs: dict[str, Any]) -> None:
    """Replace a record by an earlier one of its key, with a matching checksum."""
    key, _ = next(iter(txn.cursor(dbs["leases"])))
    txn.put(key, seal("leases", key, NUMBER.pack(1)), db=dbs["leases"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (changed("index"), "a record of index is damaged"),
        (changed("leases"), "a record of leases is damaged"),
        (without("index"), "the table index is missing"),
        (without("contents"), "the table contents is missing"),
        (without("totals"), "the table totals is missing"),
        (changed("totals"), "a record of totals is damaged"),
        (changed("facts"), "a record of facts is damaged"),
        (removed("index", "contents"), "queue 7 has 2 of 3 records"),
        (removed("leases"), "queue 7 has 2 of 3 records"),
        (removed("totals"), "queue 7 has 3 of 0 records"),
        (removed("contents"), "a segment without contents, or the reverse"),
        (older, "queue 7 has records from another time"),
    ],
)
def test_what_a_start_sees(tmp_path: Path, change: Callable[[Any, dict[str, Any]], None], text: str) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a"), 0, 1)
    opened.queue.enqueue(batch(b"b"), 0, 1)
    opened.queue.pop(1, UNLIMITED, False)
    opened.commit()
    opened.end()
    check_store(tmp_path, 0)
    alter(tmp_path, change)
    with pytest.raises(DamagedError, match=text):
        check_store(tmp_path, 0)


def test_of_a_store_that_is_larger_than_its_file_nobody_else_dies(tmp_path: Path) -> None:
    filled(tmp_path, *((b"x" * 5000,) for _ in range(100)))
    path = tmp_path / "data.mdb"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4096 * 20)
    with pytest.raises(DamagedError):
        check_store(tmp_path, 0)


@pytest.mark.parametrize("name", ["prepared", "decisions"])
def test_a_transaction_that_is_not_over_is_checked(tmp_path: Path, name: Literal["prepared", "decisions"]) -> None:
    """Neither a start nor a later incarnation accepts a record that is not as written, nor one under another key."""
    id, other = (TRANSACTION.pack(1, 0, 1, number) for number in (7, 8))
    opened = OpenedStore(tmp_path)
    opened.journal.prepare(id, [b"a part", b" in pieces"], 0)
    opened.journal.decide(id, b"\x91\x01")
    opened.commit()
    written = dict(opened.store.transactions(name))
    assert written == {id: {"prepared": b"a part in pieces", "decisions": b"\x91\x01"}[name]}
    opened.end()
    assert probe(tmp_path, 0).records == 2

    def move(txn: Any, dbs: dict[str, Any]) -> None:
        txn.put(other, txn.pop(id, db=dbs[name]), db=dbs[name])

    alter(tmp_path, move)
    with pytest.raises(DamagedError, match=f"a record of {name} is damaged"):
        probe(tmp_path, 0)
    opened = OpenedStore(tmp_path)
    with pytest.raises(StoreError, match=f"a record of {name} is damaged"):
        dict(opened.store.transactions(name))
    opened.end()


def with_transactions(path: Path) -> None:
    """Make a store with parts and decisions of two transactions."""
    opened = OpenedStore(path)
    for number in (7, 8):
        opened.journal.prepare(TRANSACTION.pack(1, 0, 1, number), [b"part %d" % number], 0)
        opened.journal.decide(TRANSACTION.pack(1, 0, 1, number), b"\x91%c" % number)
        opened.commit()
    opened.end()


@pytest.mark.parametrize("name", ["prepared", "decisions"])
def test_a_transaction_that_is_missing_or_older_shows_at_the_start(tmp_path: Path, name: str) -> None:
    with_transactions(tmp_path)
    assert probe(tmp_path, 0).records == 4
    taken: list[tuple[bytes, bytes]] = []

    def lose(txn: Any, dbs: dict[str, Any]) -> None:
        taken.append(next(iter(txn.cursor(dbs[name]))))
        txn.delete(taken[0][0], db=dbs[name])

    alter(tmp_path, lose)
    with pytest.raises(DamagedError, match=f"the table {name} has 1 of 2 records"):
        probe(tmp_path, 0)

    def put_older(txn: Any, dbs: dict[str, Any]) -> None:
        (key, _) = taken[0]
        txn.put(key, seal(name, key, b"\x90"), db=dbs[name])

    alter(tmp_path, put_older)
    with pytest.raises(DamagedError, match=f"the table {name} has records from another time"):
        probe(tmp_path, 0)


def test_transactions_that_are_over_are_not_counted(tmp_path: Path) -> None:
    with_transactions(tmp_path)
    opened = OpenedStore(tmp_path)
    for number in (7, 8):
        opened.journal.prepare(TRANSACTION.pack(1, 0, 1, number), None, 0)
        opened.journal.decide(TRANSACTION.pack(1, 0, 1, number), None)
        opened.commit()
    opened.end()
    assert probe(tmp_path, 0).records == 0

    def totals(txn: Any, dbs: dict[str, Any]) -> None:
        assert list(txn.cursor(dbs["totals"])) == []

    alter(tmp_path, totals)


@pytest.mark.parametrize("after", [{1, 4, 14}, pytest.param({*range(1, 15)}, marks=pytest.mark.slow)])
def test_a_file_that_is_cut_anywhere_is_damaged(tmp_path: Path, after: set[int]) -> None:
    """A file that is cut short never passes for a store only just begun, however many commits there were before."""
    file = tmp_path / "data.mdb"
    for commits in range(1, 15):
        opened = OpenedStore(tmp_path)
        for _ in range(1 + commits % 3):
            opened.queue.enqueue(batch(b"x" * (commits % 7 * 600 + 1)), 0, 1)
            opened.commit()
        opened.end()
        if commits not in after:
            continue
        whole, data = probe(tmp_path, 0), file.read_bytes()
        for size in range(len(data) - 2048, LEAST - 1, -4096):
            file.write_bytes(data[:size])
            try:
                found = apart(partial(probe, tmp_path, 0), (StoreError,))
            except (DamagedError, EndedError):
                continue
            assert found == whole, (commits, size)
        file.write_bytes(data)
