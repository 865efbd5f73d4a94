"""The stores on which a node may be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.errors import StartError
from ops.store.standing import check_standing
from shard.store.environment import Environment
from shard.store.stored import DATABASES, FORMAT, NUMBER
from tests.ops.store.making import fill, made, topology


def test_what_there_is_fits(tmp_path: Path) -> None:
    check_standing(tmp_path, range(1))
    for shard in range(2):
        made(tmp_path, shard)
    check_standing(tmp_path, range(1))
    topology(tmp_path)
    fill(tmp_path, 0, {7: 3})
    check_standing(tmp_path, range(1))


def test_messages_of_more_shards(tmp_path: Path) -> None:
    topology(tmp_path)
    fill(tmp_path, 0, {7: 3})
    made(tmp_path, 1)
    fill(tmp_path, 2, {8: 1})
    made(tmp_path, 3)
    text = f"{tmp_path} has messages of 3 shards, the node would have 2: start it with --shards 3"
    with pytest.raises(StartError, match=text):
        check_standing(tmp_path, range(2))
    check_standing(tmp_path, range(3))


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"x" * 100, b"\0" * 8192])
def test_a_store_that_was_never_finished_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "shards" / "5"
    path.mkdir(parents=True)
    check_standing(tmp_path, range(1))
    (path / "data.mdb").write_bytes(data)
    check_standing(tmp_path, range(1))
    made(tmp_path, 5)
    check_standing(tmp_path, range(1))


def test_other_things_in_the_directory_are_let_be(tmp_path: Path) -> None:
    (tmp_path / "shards" / "old").mkdir(parents=True)
    check_standing(tmp_path, range(1))


def test_an_unknown_format(tmp_path: Path) -> None:
    path = made(tmp_path, 0)
    environment = Environment(path, DATABASES, 1 << 20, synced=False)
    environment.write(lambda txn: txn.put(b"format", NUMBER.pack(FORMAT + 1), db=environment["facts"]))
    environment.close()
    with pytest.raises(
        StartError, match=f"^{path}: it is of format {FORMAT + 1}, this penstock knows format {FORMAT}; "
    ):
        check_standing(tmp_path, range(1))


def test_another_shards_store(tmp_path: Path) -> None:
    made(tmp_path, 1).rename(tmp_path / "shards" / "0")
    with pytest.raises(StartError, match=f"^{tmp_path}/shards/0: it is the store of shard 1; "):
        check_standing(tmp_path, range(1))


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    path = made(tmp_path, 0)
    (path / "data.mdb").write_bytes(b"x" * 10_000)
    with pytest.raises(StartError, match=f"^{path}: "):
        check_standing(tmp_path, range(1))


def test_a_store_that_is_cut_off(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 3})
    with (path / "data.mdb").open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(StartError, match=f"{path}"):
        check_standing(tmp_path, range(1))
