"""Findings of `penstock store check`: each kind of planted damage, and none in a sound store."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.store.check import PROBLEMS_MAX, check
from penstock.bus import pack
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.store.journal import Journal
from shard.store.sealed_cy import seal
from shard.store.store import Store
from shard.store.stored import KEY, TRANSACTION
from tests.ops.store.making import LIMIT, change, fill, made


def first(txn: Any, db: Any) -> tuple[bytes, bytes]:
    with txn.cursor(db) as cursor:
        assert cursor.first()
        return cursor.key(), cursor.value()


def replaced(name: str, at: int, data: bytes) -> Callable[[Any, dict[str, Any]], None]:
    """Return an alteration that overwrites the first record of a database from an offset on."""

    def alter(txn: Any, dbs: dict[str, Any]) -> None:
        key, value = first(txn, dbs[name])
        value = value[:at] + data + value[at + len(data) :]
        txn.put(key, seal(name, key, value[:-8]) if name == "index" else value, db=dbs[name])

    return alter


def removed(name: str) -> Callable[[Any, dict[str, Any]], None]:
    def alter(txn: Any, dbs: dict[str, Any]) -> None:
        txn.delete(first(txn, dbs[name])[0], db=dbs[name])

    return alter


def added(name: str, key: bytes, value: bytes) -> Callable[[Any, dict[str, Any]], None]:
    def alter(txn: Any, dbs: dict[str, Any]) -> None:
        txn.put(key, value, db=dbs[name])

    return alter


def doubled(txn: Any, dbs: dict[str, Any]) -> None:
    """Add the first segment again, beginning at its second message."""
    for name in ("index", "contents"):
        key, value = first(txn, dbs[name])
        id, sequence = KEY.unpack(key)
        later = KEY.pack(id, sequence + 1)
        txn.put(later, seal(name, later, value[:-8]) if name == "index" else value, db=dbs[name])


def test_nothing_is_wrong(tmp_path: Path) -> None:
    path = fill(tmp_path, 1, {7: 10, 9: 3})
    found = check(path, 1)
    assert (found.queues, found.segments, found.messages, found.problems) == (2, 5, 13, 0)
    assert found.message_bytes > 13 * 16
    assert found.size == (path / "data.mdb").stat().st_size
    assert check(made(tmp_path, 2), 2).problems == 0


def test_messages_that_are_done_with_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "shards" / "0"
    fill(tmp_path, 0, {7: 10})
    store = Store(path, LIMIT, False, 1)
    journal = Journal(store.read)
    queue = Queue(7, None, 1 << 36, journal, True)
    queue.recover([segment for _, segment in store.segments()], {})
    (item, *_) = queue.pop(2, UNLIMITED, False)
    queue.settle(item.sequence, item.count)
    store.write(journal.hand_over())
    store.close()
    found = check(path, 0)
    assert (found.messages, found.problems) == (8, 0)


@pytest.mark.parametrize(
    ("alter", "text"),
    [
        (replaced("index", 0, b"\x09"), "an index record of 40 bytes for 9 messages|(octets|bytes) for 9 messages"),
        (replaced("index", 8, b"\xff"), "bytes of bodies, "),
        (replaced("index", 16, b"\xff"), "bytes of contents, 255 in the index"),
        (replaced("index", 4, b"\x04"), "whether all of its messages are persistent"),
        (added("index", b"short", b""), "key 73686f7274: "),
        (removed("index"), "contents without an index record"),
        (removed("contents"), "its contents are missing"),
        (replaced("contents", 0, b"\x01"), "message 1 begins at"),
        (replaced("contents", 4, b"\xff"), "message 0 ends at|message 1 begins at"),
        (replaced("contents", 44, b"\xff\xff\xff"), "message 2 ends at"),
        (replaced("contents", 49, b"\x09"), "its address is no exchange and routing key"),
        (replaced("contents", 53, b"\x09"), "its header is of class 9 "),
        (replaced("contents", 62, b"\x09\x09\x09"), "its header is of class 60 and"),
        (added("leases", b"short", b""), "leases: a record of 0 bytes under a key of 5"),
        (added("leases", bytes(16), bytes(16)), "a record of leases is damaged"),
        (removed("index"), "queue 7 has 3 of 4 records"),
        (replaced("contents", 67, b"y"), "message 68719476736: its contents are damaged"),
        (removed("totals"), "queue 7 has 4 of 0 records"),
        (replaced("totals", 0, b"\xff"), "a record of totals is damaged"),
        (doubled, "begins before the segment before it ends"),
    ],
)
def test_damage(tmp_path: Path, alter: Callable[[Any, dict[str, Any]], None], text: str) -> None:
    path = fill(tmp_path, 0, {7: 10})
    change(path, alter)
    found = check(path, 0)
    assert found.problems
    assert any(re.search(text, problem) for problem in found.first_problems), found.first_problems


@pytest.mark.parametrize("name", ["prepared", "decisions"])
def test_transactions_that_are_lost(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, 0)
    store = Store(path, LIMIT, False, 1)
    journal = Journal(store.read)
    id = TRANSACTION.pack(1, 0, 1, 7)
    head = pack([0, [[7, 1, 1, 0]], []])
    journal.prepare(id, [len(head).to_bytes(4, "little"), head], 0)
    journal.decide(id, b"\x91\x01")
    store.write(journal.hand_over())
    store.close()
    assert check(path, 0).problems == 0
    change(path, removed(name))
    assert check(path, 0).first_problems == [f"the table {name} has 0 of 1 records"]


def test_of_many_problems_the_first_are_told(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 300})

    def forget(txn: Any, dbs: dict[str, Any]) -> None:
        txn.drop(dbs["contents"], delete=False)

    change(path, forget)
    found = check(path, 0)
    assert (found.problems, len(found.first_problems)) == (100, PROBLEMS_MAX)
