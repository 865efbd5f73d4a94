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
from tests.shard.store.test_store import LIMIT, Life, batch, bodies, prioritised


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
    life = Life(path, make)
    for group in groups:
        life.queue.enqueue(batch(*group), 0, len(group))
    life.commit()
    life.end()


def drained(life: Life) -> tuple[list[bytes], list[DamagedError]]:
    """Return the messages that the queue delivers, and the errors of its damaged ones."""
    found, damaged = [], []
    while life.queue.ready:
        try:
            found += [body for body, _ in bodies(life.queue)]
        except DamagedError as error:
            damaged.append(error)
            assert life.queue.drop_damaged()
    return found, damaged


def test_damaged_messages_are_dropped_and_the_others_come(tmp_path: Path) -> None:
    filled(tmp_path, (b"a", b"b"), (b"c", b"d"), (b"e",))
    damage(tmp_path, 1)
    life = Life(tmp_path)
    found, (damaged,) = drained(life)
    assert found == [b"a", b"b", b"e"]
    assert (life.queue.ready, life.queue.ready_bytes, life.queue.totals.dropped) == (0, 0, 2)
    file = life.store.set_aside(damaged)
    assert file.parent == tmp_path / "damaged"
    data = file.read_bytes()
    (size,) = LENGTH.unpack_from(data)
    assert data[LENGTH.size + size :].count(b"c") == 1
    life.commit()
    life.end()
    assert probe(tmp_path, 0).records == 3
    life = Life(tmp_path)
    assert drained(life)[0] == [b"a", b"b", b"e"], "what is damaged does not come back"
    life.end()


def test_damage_in_the_middle_of_what_is_partly_done(tmp_path: Path) -> None:
    life = Life(tmp_path)
    first = life.queue.enqueue(batch(b"a", b"b", b"c", b"d"), 0, 4)
    life.queue.enqueue(batch(b"e"), 0, 1)
    life.queue.pop(3, UNLIMITED, False)
    life.queue.settle(first + 1, 1)
    life.commit()
    life.end()
    damage(tmp_path, 0)
    life = Life(tmp_path)
    assert drained(life)[0] == [b"e"]
    assert life.queue.totals.dropped == 3
    life.end()


def test_damage_in_one_line_of_priorities(tmp_path: Path) -> None:
    def make(journal: Journal) -> PriorityQueue:
        return PriorityQueue(7, None, 9, 1 << 36, journal, True)

    life = Life(tmp_path, make)
    for number, priority in ((b"a", 1), (b"b", 2), (b"c", 1)):
        life.queue.enqueue(prioritised(priority, number), 0, 1)
    life.commit()
    life.end()
    damage(tmp_path, 2)
    life = Life(tmp_path, make)
    assert drained(life)[0] == [b"a", b"c"]
    assert life.queue.ready == 0
    life.end()


def test_what_is_spilled_is_checked_as_well(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for number in range(3):
        life.queue.enqueue(batch(bytes([65 + number]) * 3000, flags=0), 0, 1)
    while life.queue.page_out(UNLIMITED, 0):
        life.commit()
        if life.queue.paged:
            break
    life.queue.page_out(UNLIMITED, 0)
    life.store.close()
    spill = Environment(tmp_path / "spill", ("index", "contents", "totals"), LIMIT, False)

    def change(txn: Any) -> None:
        key, value = next(iter(txn.cursor(spill["contents"])))
        txn.put(key, value[:-1] + b"?", db=spill["contents"])

    spill.write(change)
    spill.close()
    life = Life(tmp_path)
    found, damaged = drained(life)
    assert damaged
    assert all(error.spilled for error in damaged)
    assert all(b"?" not in body for body in found)
    assert life.store.set_aside(damaged[0]).exists()
    life.end()


def test_the_key_of_what_is_damaged(tmp_path: Path) -> None:
    filled(tmp_path, (b"a",))
    damage(tmp_path, 0)
    life = Life(tmp_path)
    _, (damaged,) = drained(life)
    assert damaged.key is not None
    assert KEY.unpack(damaged.key) == (7, 1 << 36)
    life.end()
