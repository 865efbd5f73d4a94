"""What is damaged in a store is never given to anyone: it is set aside, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import lmdb
import pytest

from penstock.files.apart import EndedError, apart
from shard.contents.errors import DamagedError, StoreError
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED
from shard.store.environment import LEAST, Environment
from shard.store.journal import Journal
from shard.store.probe import check_store, probe
from shard.store.sealed_cy import TABLES, seal
from shard.store.store import LENGTH
from shard.store.stored import DATABASES, KEY, NUMBER, TRANSACTION
from tests.shard.store.test_store import LIMIT, Life, batch, bodies, prioritised

OLD_DATABASES = [name for name in DATABASES if name != "totals"]


def alter(path: Path, change: Callable[[Any, dict[str, Any]], None]) -> None:
    """Alter a store behind its back."""
    with lmdb.open(str(path), max_dbs=len(DATABASES), map_size=1 << 24) as env:
        dbs = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            change(txn, dbs)


def damage(path: Path, number: int) -> None:
    """Change an octet of the contents of so-manieth segment."""

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
    """What the queue gives, and what of it is damaged."""
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
    assert (life.queue.ready, life.queue.ready_bytes, life.queue.dropped) == (0, 0, 2)
    file = life.store.set_aside(damaged)
    assert file.parent == tmp_path / "damaged"
    octets = file.read_bytes()
    (size,) = LENGTH.unpack_from(octets)
    assert octets[LENGTH.size + size :].count(b"c") == 1
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
    life.queue.take(3, UNLIMITED, False)
    life.queue.settle(first + 1, 1)
    life.commit()
    life.end()
    damage(tmp_path, 0)
    life = Life(tmp_path)
    assert drained(life)[0] == [b"e"]
    assert life.queue.dropped == 3
    life.end()


def test_damage_in_one_line_of_priorities(tmp_path: Path) -> None:
    def make(journal: Journal) -> PriorityQueue:
        return PriorityQueue(7, None, 9, 1 << 36, journal, True)

    life = Life(tmp_path, make)
    for number, priority in ((b"a", 1), (b"b", 2), (b"c", 1)):
        life.queue.enqueue(prioritised(number, priority), 0, 1)
    life.commit()
    life.end()
    damage(tmp_path, 2)
    life = Life(tmp_path, make)
    assert drained(life)[0] == [b"a", b"c"]
    assert life.queue.ready == 0
    life.end()


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


def older(txn: Any, dbs: dict[str, Any]) -> None:
    """A record as it may have been before, with a checksum that fits it."""
    key, _ = next(iter(txn.cursor(dbs["leases"])))
    txn.put(key, seal("leases", key, NUMBER.pack(1)), db=dbs["leases"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (changed("index"), "a record of index is damaged"),
        (changed("leases"), "a record of leases is damaged"),
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
    life = Life(tmp_path)
    life.queue.enqueue(batch(b"a"), 0, 1)
    life.queue.enqueue(batch(b"b"), 0, 1)
    life.queue.take(1, UNLIMITED, False)
    life.commit()
    life.end()
    check_store(tmp_path, 0)
    alter(tmp_path, change)
    with pytest.raises(DamagedError, match=text):
        check_store(tmp_path, 0)


def test_a_store_of_format_1_is_taken_over_once(tmp_path: Path) -> None:
    filled(tmp_path, (b"a", b"b"), (b"c",))
    with lmdb.open(str(tmp_path), max_dbs=len(DATABASES), map_size=1 << 24) as env:
        dbs = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            for name in OLD_DATABASES:
                for key, value in list(txn.cursor(dbs[name])):
                    if name != "contents" and key != b"format":
                        txn.put(key, value[: -16 if name == "index" else -8], db=dbs[name])
            txn.put(b"format", NUMBER.pack(1), db=dbs["facts"])
            txn.drop(dbs["totals"])
    assert probe(tmp_path, 0).records == 2
    for _ in range(2):
        life = Life(tmp_path)
        assert [body for body, _ in bodies(life.queue)] == [b"a", b"b", b"c"]
        life.end()
        check_store(tmp_path, 0)
    damage(tmp_path, 0)
    life = Life(tmp_path)
    assert drained(life)[0] == [b"c"]
    life.end()


def test_of_a_store_that_is_larger_than_its_file_nobody_else_dies(tmp_path: Path) -> None:
    filled(tmp_path, *((b"x" * 5000,) for _ in range(100)))
    path = tmp_path / "data.mdb"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4096 * 20)
    with pytest.raises(DamagedError):
        check_store(tmp_path, 0)


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


def test_what_is_free_is_checked(tmp_path: Path) -> None:
    """Pages that are said to be free are written over."""
    life = Life(tmp_path)
    for _ in range(20):
        life.queue.enqueue(batch(bytes(9000)), 0, 1)
        life.commit()
        for item in life.queue.take(1, UNLIMITED, False):
            life.queue.settle(item.sequence, item.count)
        life.commit()
    life.end()
    check_store(tmp_path, 0)
    path = tmp_path / "data.mdb"
    octets = bytearray(path.read_bytes())
    newest = max((0, 4096), key=lambda page: int.from_bytes(octets[page + 144 : page + 152], "little"))
    root = int.from_bytes(octets[newest + 16 + 24 + 40 : newest + 16 + 24 + 48], "little")
    octets[root * 4096 + 4000 : root * 4096 + 4096] = bytes(range(96))
    path.write_bytes(octets)
    with pytest.raises(DamagedError, match="free"):
        check_store(tmp_path, 0)


@pytest.mark.parametrize("name", ["prepared", "decisions"])
def test_a_transaction_that_is_not_over_is_checked(tmp_path: Path, name: Literal["prepared", "decisions"]) -> None:
    """Neither a start nor a later life takes one that is not what was written, nor one under another key."""
    id, other = (TRANSACTION.pack(1, 0, 1, number) for number in (7, 8))
    life = Life(tmp_path)
    life.journal.prepare(id, [b"a part", b" in pieces"], 0)
    life.journal.decide(id, b"\x91\x01")
    life.commit()
    written = dict(life.store.transactions(name))
    assert written == {id: {"prepared": b"a part in pieces", "decisions": b"\x91\x01"}[name]}
    life.end()
    assert probe(tmp_path, 0).records == 2

    def move(txn: Any, dbs: dict[str, Any]) -> None:
        txn.put(other, txn.pop(id, db=dbs[name]), db=dbs[name])

    alter(tmp_path, move)
    with pytest.raises(DamagedError, match=f"a record of {name} is damaged"):
        probe(tmp_path, 0)
    life = Life(tmp_path)
    with pytest.raises(StoreError, match=f"a record of {name} is damaged"):
        dict(life.store.transactions(name))
    life.end()


def with_transactions(path: Path) -> None:
    """A store with parts and decisions of two transactions."""
    life = Life(path)
    for number in (7, 8):
        life.journal.prepare(TRANSACTION.pack(1, 0, 1, number), [b"part %d" % number], 0)
        life.journal.decide(TRANSACTION.pack(1, 0, 1, number), b"\x91%c" % number)
        life.commit()
    life.end()


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
    life = Life(tmp_path)
    for number in (7, 8):
        life.journal.prepare(TRANSACTION.pack(1, 0, 1, number), None, 0)
        life.journal.decide(TRANSACTION.pack(1, 0, 1, number), None)
        life.commit()
    life.end()
    assert probe(tmp_path, 0).records == 0

    def totals(txn: Any, dbs: dict[str, Any]) -> None:
        assert list(txn.cursor(dbs["totals"])) == []

    alter(tmp_path, totals)


def test_a_store_of_format_2_is_taken_over_once(tmp_path: Path) -> None:
    """It had no sums of transactions: whatever it has of them counts, and is kept count of from then on."""
    filled(tmp_path, (b"a",))
    with_transactions(tmp_path)

    def old(txn: Any, dbs: dict[str, Any]) -> None:
        for owner in TABLES.values():
            assert txn.delete(owner, db=dbs["totals"])
        txn.put(b"format", NUMBER.pack(2), db=dbs["facts"])

    alter(tmp_path, old)
    assert probe(tmp_path, 0).records == 5
    for _ in range(2):
        life = Life(tmp_path)
        assert len(dict(life.store.transactions("prepared"))) == 2
        life.end()
        assert probe(tmp_path, 0).records == 5

    def lose(txn: Any, dbs: dict[str, Any]) -> None:
        txn.drop(dbs["prepared"], delete=False)

    alter(tmp_path, lose)
    with pytest.raises(DamagedError, match="the table prepared has 0 of 2 records"):
        probe(tmp_path, 0)


def test_a_file_that_is_cut_anywhere_is_damaged(tmp_path: Path) -> None:
    """It never passes for a store that has hardly been begun."""
    file = tmp_path / "data.mdb"
    for commits in range(1, 15):
        life = Life(tmp_path)
        for _ in range(1 + commits % 3):
            life.queue.enqueue(batch(b"x" * (commits % 7 * 600 + 1)), 0, 1)
            life.commit()
        life.end()
        whole, octets = probe(tmp_path, 0), file.read_bytes()
        for size in range(len(octets) - 2048, LEAST - 1, -4096):
            file.write_bytes(octets[:size])
            try:
                found = apart(partial(probe, tmp_path, 0), (StoreError,))
            except (DamagedError, EndedError):
                continue
            assert found == whole, (commits, size)
        file.write_bytes(octets)
