"""Damage in a store: damaged records are set aside and delivered to nobody, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from shard.contents.errors import DamagedError
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED
from shard.store.environment import Environment
from shard.store.journal import Journal
from shard.store.probe import probe
from shard.store.store import LENGTH
from shard.store.stored import DATABASES, KEY
from tests.shard.store.test_store import LIMIT, OpenedStore, batch, bodies, prioritised


def alter(path: Path, change: Callable[[Any, dict[str, Any]], None]) -> None:
    """Alter a store behind its back."""
    with lmdb.open(str(path), max_dbs=len(DATABASES), map_size=1 << 24) as env:
        dbs = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            change(txn, dbs)


def damage(path: Path, number: int) -> None:
    """Change a byte in the contents of the segment with this number."""

    def change(txn: Any, dbs: dict[str, Any]) -> None:
        key, value = list(txn.cursor(dbs["contents"]))[number]
        txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=dbs["contents"])

    alter(path, change)


def filled(path: Path, *groups: tuple[bytes, ...], make: Callable[[Journal], Any] | None = None) -> None:
    opened = OpenedStore(path, make)
    for group in groups:
        opened.queue.enqueue(batch(*group), 0, len(group))
    opened.commit()
    opened.end()


def drained(opened: OpenedStore) -> tuple[list[bytes], list[DamagedError]]:
    """Return the messages that the queue delivers, and the errors of its damaged ones."""
    found, damaged = [], []
    while opened.queue.ready:
        try:
            found += [body for body, _ in bodies(opened.queue)]
        except DamagedError as error:
            damaged.append(error)
            assert opened.queue.drop_damaged()
    return found, damaged


def test_damaged_messages_are_dropped_and_the_others_come(tmp_path: Path) -> None:
    filled(tmp_path, (b"a", b"b"), (b"c", b"d"), (b"e",))
    damage(tmp_path, 1)
    opened = OpenedStore(tmp_path)
    found, (damaged,) = drained(opened)
    assert found == [b"a", b"b", b"e"]
    assert (opened.queue.ready, opened.queue.ready_bytes, opened.queue.totals.dropped) == (0, 0, 2)
    file = opened.store.set_aside(damaged)
    assert file.parent == tmp_path / "damaged"
    data = file.read_bytes()
    (size,) = LENGTH.unpack_from(data)
    assert data[LENGTH.size + size :].count(b"c") == 1
    opened.commit()
    opened.end()
    assert probe(tmp_path, 0).records == 3
    opened = OpenedStore(tmp_path)
    assert drained(opened)[0] == [b"a", b"b", b"e"], "what is damaged does not come back"
    opened.end()


def test_damage_in_the_middle_of_what_is_partly_done(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    first = opened.queue.enqueue(batch(b"a", b"b", b"c", b"d"), 0, 4)
    opened.queue.enqueue(batch(b"e"), 0, 1)
    opened.queue.pop(3, UNLIMITED, False)
    opened.queue.settle(first + 1, 1)
    opened.commit()
    opened.end()
    damage(tmp_path, 0)
    opened = OpenedStore(tmp_path)
    assert drained(opened)[0] == [b"e"]
    assert opened.queue.totals.dropped == 3
    opened.end()


def test_damage_in_one_line_of_priorities(tmp_path: Path) -> None:
    def make(journal: Journal) -> PriorityQueue:
        return PriorityQueue(7, None, 9, 1 << 36, journal, True)

    opened = OpenedStore(tmp_path, make)
    for number, priority in ((b"a", 1), (b"b", 2), (b"c", 1)):
        opened.queue.enqueue(prioritised(priority, number), 0, 1)
    opened.commit()
    opened.end()
    damage(tmp_path, 2)
    opened = OpenedStore(tmp_path, make)
    assert drained(opened)[0] == [b"a", b"c"]
    assert opened.queue.ready == 0
    opened.end()


def test_what_is_spilled_is_checked_as_well(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for number in range(3):
        opened.queue.enqueue(batch(bytes([65 + number]) * 3000, flags=0), 0, 1)
    while opened.queue.page_out(UNLIMITED, 0):
        opened.commit()
        if opened.queue.paged:
            break
    opened.queue.page_out(UNLIMITED, 0)
    opened.store.close()
    spill = Environment(tmp_path / "spill", ("index", "contents", "totals"), LIMIT, False)

    def change(txn: Any) -> None:
        key, value = next(iter(txn.cursor(spill["contents"])))
        txn.put(key, value[:-1] + b"?", db=spill["contents"])

    spill.write(change)
    spill.close()
    opened = OpenedStore(tmp_path)
    found, damaged = drained(opened)
    assert damaged
    assert all(error.spilled for error in damaged)
    assert all(b"?" not in body for body in found)
    assert opened.store.set_aside(damaged[0]).exists()
    opened.end()


def test_the_key_of_what_is_damaged(tmp_path: Path) -> None:
    filled(tmp_path, (b"a",))
    damage(tmp_path, 0)
    opened = OpenedStore(tmp_path)
    _, (damaged,) = drained(opened)
    assert damaged.key is not None
    assert KEY.unpack(damaged.key) == (7, 1 << 36)
    opened.end()
