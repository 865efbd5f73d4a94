"""Salvage of damaged stores: all readable content, nothing else, in stores that a node can start on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.check import check
from ops.store.recognition import recognise
from ops.store.salvage import Salvaged, salvage
from router.storage.store import Store as TopologyStore
from shard.store.journal import Journal
from shard.store.store import Store
from shard.store.stored import TRANSACTION
from tests.ops.store.dumping import with_topology
from tests.ops.store.making import LIMIT, change, fill

COUNTS = {7: 300, 8: 200}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    fill(data, 0, COUNTS)
    fill(data, 1, {9: 50})
    with_topology(data)
    return data


def bodies(data: Path, shard: int) -> list[tuple[int, bytes]]:
    """Return queue and body of each message of a store, in order."""
    store = Store(data / "shards" / str(shard), LIMIT, False, 1, shard)
    journal = Journal(store.read)
    found = []
    for queue, segment in store.segments():
        batch = journal.load(queue, segment)
        found += [
            (queue, batch.record(row)[2]) for offset, count in segment.undone() for row in range(offset, offset + count)
        ]
    store.close()
    return found


def published(counts: dict[int, int]) -> list[tuple[int, bytes]]:
    return [(queue, b"%d of queue %d" % (number, queue)) for queue, count in counts.items() for number in range(count)]


def test_nothing_is_damaged(data: Path, tmp_path: Path) -> None:
    found, problem = salvage(data, tmp_path / "new")
    assert problem == ""
    assert found == [Salvaged(0, 167, 500), Salvaged(1, 17, 50)]
    assert bodies(tmp_path / "new", 0) == published(COUNTS)
    assert recognise(tmp_path / "new").needed() == [0, 1]
    with pytest.raises(CommandError, match="is not empty"):
        salvage(data, tmp_path / "new")


def test_contents_that_are_damaged_are_lost_and_counted(data: Path, tmp_path: Path) -> None:
    def spoil(txn: object, dbs: dict[str, object]) -> None:
        key, value = next(iter(txn.cursor(dbs["contents"])))  # type: ignore[attr-defined]
        txn.put(key, value[:-1] + b"?", db=dbs["contents"])  # type: ignore[attr-defined]

    change(data / "shards/0", spoil)
    (saved, _), _ = salvage(data, tmp_path / "new")
    assert (saved.messages, saved.lost_segments, saved.lost_messages) == (497, 1, 3)
    assert bodies(tmp_path / "new", 0) == published(COUNTS)[3:]


@pytest.mark.parametrize("seed", range(20))
def test_random_pages(data: Path, tmp_path: Path, seed: int) -> None:
    """Whatever the damage, salvaged messages are right and in order, and losses are reported."""
    chance = random.Random(seed)
    path = data / "shards/0/data.mdb"
    stored = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 10))):
        place = chance.randrange(len(stored) // 4096) * 4096
        stored[place : place + 4096] = chance.randbytes(4096)
    if chance.randrange(3) == 0:
        del stored[chance.randrange(len(stored)) :]
    path.write_bytes(stored)
    (saved, other), _ = salvage(data, tmp_path / "new")
    assert other.messages == 50
    if (tmp_path / "new/shards/0").exists():
        came = bodies(tmp_path / "new", 0)
        assert came == [each for each in published(COUNTS) if each in set(came)]
        assert len(came) == saved.messages
        assert check(tmp_path / "new/shards/0", 0).problems == 0
    assert saved.damaged_pages or saved.lost_messages or saved.messages == 500


def test_without_a_topology_queues_get_names(data: Path, tmp_path: Path) -> None:
    (data / "topology.sqlite").unlink()
    new = tmp_path / "new"
    found, problem = salvage(data, new)
    assert "no topology.sqlite" in problem
    assert [saved.messages for saved in found] == [500, 50]
    store = TopologyStore(new / "topology.sqlite", 2)
    names = {(change[1], change[2], change[3]) for change in store.load().changes if change[0] == "queue"}
    store.close()
    assert names == {("/", f"salvaged.{id}", id) for id in (7, 8, 9)}


def test_a_topology_that_is_damaged(data: Path, tmp_path: Path) -> None:
    path = data / "topology.sqlite"
    stored = path.read_bytes()
    path.write_bytes(stored.replace(b"plain", b"pLain"))
    _, problem = salvage(data, tmp_path / "new")
    assert "the queues are not what was written" in problem
    path.write_bytes(b"x" * 10_000)
    _, problem = salvage(data, tmp_path / "newer")
    assert "not a database" in problem


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_transactions_that_were_not_over_are_undone_and_counted(data: Path, tmp_path: Path, lost: int) -> None:
    """Transactions whose parts are lost count as well: their number is known."""
    path = data / "shards/0"
    store = Store(path, LIMIT, False, 1)
    journal = Journal(store.read)
    for number in range(3):
        journal.prepare(TRANSACTION.pack(1, 0, 1, number), [b"a part"], 6)
    store.write(journal.hand_over())
    store.close()

    def lose(txn: object, dbs: dict[str, object]) -> None:
        for number in range(lost):
            txn.delete(TRANSACTION.pack(1, 0, 1, number), db=dbs["prepared"])  # type: ignore[attr-defined]

    change(path, lose)
    (saved, other), _ = salvage(data, tmp_path / "new")
    assert (saved.undone, other.undone) == (3, 0)
    assert (saved.messages, saved.again) == (500, lost > 0)
    assert bodies(tmp_path / "new", 0) == published(COUNTS)
