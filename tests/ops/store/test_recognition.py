"""A node starts on the stores that it left, and on no others."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.errors import StartError
from ops.store.identity import Identity, store
from ops.store.recognition import Standing, accept, begin_run, recognise
from penstock.files.witness import Witness
from router.storage.store import Store as TopologyStore
from shard.store.store import Store
from tests.ops.store.making import LIMIT, fill, topology

FILE = "shards/0/data.mdb"


def run(data: Path, epoch: int, shards: int = 2) -> None:
    """Write the files of a node's run that has served, with the stores of `shards` shards."""
    node = begin_run(data, recognise(data), epoch)
    TopologyStore(data / "topology.sqlite", epoch, Witness(data, "topology", node)).close()
    for shard in range(shards):
        witness = Witness(data, f"shard.{shard}", node)
        Store(data / "shards" / str(shard), LIMIT, False, epoch, shard, witness).close()
    store(data, Identity(node, (epoch,)))


def copy(data: Path, other: str = "before") -> Path:
    return Path(shutil.copytree(data, data.with_name(other)))


def put_back(data: Path, earlier: Path, name: str) -> None:
    if (earlier / name).is_dir():
        shutil.rmtree(data / name)
        shutil.copytree(earlier / name, data / name)
    else:
        shutil.copy(earlier / name, data / name)


def zeroed(path: Path, nbytes: int) -> None:
    with path.open("r+b") as file:
        file.write(bytes(nbytes))


def damaged(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(path.stat().st_size))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a node that has run twice."""
    data = tmp_path / "data"
    data.mkdir()
    for epoch in (11, 12):
        run(data, epoch)
    return data


def test_what_the_node_left_is_taken(data: Path) -> None:
    node = recognise(data).node()
    run(data, 13)
    assert recognise(data).node() == node


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda data: zeroed(data / FILE, 8192), "shards/0: it is damaged"),
        (lambda data: (data / FILE).write_bytes(b""), "shards/0: it is missing"),
        (lambda data: (data / FILE).unlink(), "shards/0: it is missing"),
        (lambda data: shutil.rmtree(data / "shards/1"), "shards/1: it is missing"),
        (lambda data: shutil.rmtree(data / "shards"), "shards/0: it is missing"),
        (lambda data: damaged(data / FILE), "shards/0: it is damaged"),
        (lambda data: (data / FILE).write_bytes(b"x" * 7000), "shards/0: it is damaged"),
        (lambda data: (data / "topology.sqlite").unlink(), "topology.sqlite: it is missing"),
        (lambda data: (data / "topology.sqlite").write_bytes(b""), "topology.sqlite: it is missing"),
        (lambda data: damaged(data / "topology.sqlite"), "topology.sqlite: file is not a database"),
        (lambda data: shutil.rmtree(data / "witness"), "witness/node: it is missing"),
        (lambda data: damaged(data / "witness/node"), "witness/node: it cannot be read"),
        (lambda data: damaged(data / "witness/shard.1"), "witness/shard.1: it cannot be read"),
        (lambda data: damaged(data / "witness/topology"), "witness/topology: it cannot be read"),
    ],
)
def test_what_is_missing_or_damaged_is_named_and_the_node_goes_on_without_it(
    data: Path, harm: Callable[[Path], object], named: str
) -> None:
    before = copy(data)
    harm(data)
    with pytest.raises(StartError, match=f"^{data}/{named}.*; `penstock store accept` goes on without it$"):
        recognise(data)
    assert accept(data)
    run(data, 13)
    shutil.rmtree(data)
    shutil.copytree(before, data)
    recognise(data)


@pytest.mark.parametrize("name", ["shards/0", "topology.sqlite", "shards"])
def test_a_store_from_another_time(data: Path, name: str) -> None:
    before = copy(data)
    run(data, 13)
    put_back(data, before, name)
    with pytest.raises(StartError, match=f"^{data}/{name}(/0)?: it is from another time.*accept"):
        recognise(data)
    accept(data)
    run(data, 14)


def test_a_store_from_the_same_run_that_has_less(data: Path) -> None:
    before = copy(data)
    node = recognise(data).node()
    Store(data / "shards/0", LIMIT, True, 12, 0, Witness(data, "shard.0", node)).close()
    put_back(data, before, "shards/0")
    with pytest.raises(StartError, match=f"^{data}/shards/0: it is from another time: it has 2 commits, 3 were made"):
        recognise(data)


def test_all_but_the_shards_from_another_time(data: Path) -> None:
    before = copy(data)
    run(data, 13)
    for name in ("witness", "topology.sqlite"):
        put_back(data, before, name)
    with pytest.raises(StartError, match=f"^{data}/shards/0: it is from another time"):
        recognise(data)


@pytest.mark.parametrize("name", ["shards/1", "topology.sqlite"])
def test_a_store_of_another_node(data: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for epoch in (11, 12):
        run(other, epoch)
    put_back(data, other, name)
    with pytest.raises(StartError, match=f"^{data}/{name}: it is of another node; .*accept"):
        recognise(data)
    assert accept(data)
    run(data, 13)
    assert (data / f"{name}.set-aside").exists()


def test_messages_are_set_aside_where_their_queues_are_not_known(data: Path) -> None:
    (data / "topology.sqlite").unlink()
    answer = accept(data)
    assert "shard 0 begins empty" in answer[0]
    assert (data / "shards/0.set-aside/data.mdb").exists()
    run(data, 13)


def test_starts_that_did_not_get_far(data: Path) -> None:
    """Some stores know of runs that others do not; the node has served in none of these."""
    for epoch in (13, 14):
        node = begin_run(data, recognise(data), epoch)
        Store(data / "shards/0", LIMIT, False, epoch, 0, Witness(data, "shard.0", node)).close()
    run(data, 15)
    assert set(Standing(data).epochs()) == {15}


def test_older_stores_are_taken_over_in_a_step_that_can_be_repeated(tmp_path: Path) -> None:
    topology(tmp_path)
    fill(tmp_path, 0, {7: 3})
    fill(tmp_path, 1, {8: 3})
    node = begin_run(tmp_path, recognise(tmp_path), 11)
    Store(tmp_path / "shards/1", LIMIT, False, 11, 1, Witness(tmp_path, "shard.1", node)).close()
    run(tmp_path, 12)
    assert recognise(tmp_path).node() == node
    assert recognise(tmp_path).needed() == [0, 1]


def test_an_older_store_in_the_place_of_one_that_was_taken_over(data: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    fill(older, 0, {7: 3})
    put_back(data, older, "shards/0")
    with pytest.raises(StartError, match=f"^{data}/shards/0: it is from another time"):
        recognise(data)


def test_messages_without_a_topology(tmp_path: Path) -> None:
    fill(tmp_path, 0, {7: 3})
    with pytest.raises(StartError, match=f"^{tmp_path}/topology.sqlite: it is missing"):
        recognise(tmp_path)
