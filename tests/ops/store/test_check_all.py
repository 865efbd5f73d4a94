"""The check of all stores of a data directory: an unreadable one hides no other."""

from __future__ import annotations

import os
from pathlib import Path

from ops.store.check_all import check_all
from tests.ops.store.making import change, fill, topology
from tests.ops.store.test_check import replaced
from tests.ops.store.writing import reading_pids, written


def test_an_unreadable_store_is_a_finding_beside_the_others(tmp_path: Path) -> None:
    topology(tmp_path)
    for shard in range(3):
        fill(tmp_path, shard, {7: 3})
    (tmp_path / "shards" / "1" / "data.mdb").write_bytes(b"x" * 10_000)
    found, problems = check_all(tmp_path, live=False)
    assert problems == []
    assert [(each.shard, each.messages, each.problems) for each in found] == [(0, 3, 0), (1, 0, 1), (2, 3, 0)]
    assert found[1].path == str(tmp_path / "shards" / "1")
    assert found[1].first_problems[0].startswith(f"{tmp_path}/shards/1: ")


def test_problems_of_the_topology_come_beside_those_of_the_stores(tmp_path: Path) -> None:
    fill(tmp_path, 0, {7: 3})
    (tmp_path / "topology.sqlite").write_bytes(b"x" * 10_000)
    found, problems = check_all(tmp_path, live=False)
    assert problems == [f"{tmp_path}/topology.sqlite: file is not a database"]
    assert [each.problems for each in found] == [0]


def test_damage_is_found_while_a_node_writes(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 10})
    change(path, replaced("contents", 67, b"y"))
    with written(path):
        found, problems = check_all(tmp_path, live=True)
    assert problems == []
    assert [text for each in found for text in each.first_problems] == [
        "queue 7, message 68719476736: its contents are damaged"
    ]


def test_whoever_dies_of_a_damaged_file_pins_nothing(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 3000})
    with written(path):
        whole = (path / "data.mdb").read_bytes()
        os.truncate(path / "data.mdb", 3 * 4096)
        (found,), _ = check_all(tmp_path, live=True)
        (path / "data.mdb").write_bytes(whole)
        assert "SIGBUS" in found.first_problems[0]
        assert all(Path(f"/proc/{pid}").exists() for pid in reading_pids(path))
