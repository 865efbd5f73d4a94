"""A backup without a node: it is made as a whole or not at all, and restores what was there."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.backup import backup
from ops.store.recognition import recognise
from shard.store.stored import NUMBER
from tests.ops.store.copies import COUNTS, content, ran, restored
from tests.ops.store.making import change, fill
from tests.ops.store.test_check import replaced
from tests.ops.store.test_recognition import run
from tests.ops.store.test_salvage import bodies, published
from tests.ops.store.writing import reading_pids, written

Usage = namedtuple("Usage", ("total", "used", "free"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return ran(tmp_path / "data")


def test_what_was_backed_up_comes_back(data: Path, tmp_path: Path) -> None:
    before = content(data)
    made = backup(data, tmp_path / "backup", live=False)
    assert content(data) == before
    assert (made.manifest.problems, made.problems) == (0, [])
    assert [(found.shard, found.messages) for found in made.found] == [(0, 50), (1, 5)]
    assert all(path.stat().st_mode & 0o77 == 0 for path in (tmp_path / "backup").rglob("*"))
    assert restored(tmp_path / "backup", tmp_path / "other") == []
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["shards", "topology.sqlite", "witness"]
    assert recognise(tmp_path / "other").node() == recognise(data).node()
    run(tmp_path / "other", 13)
    assert bodies(tmp_path / "other", 0) == published(COUNTS)


def test_a_backup_that_cannot_be_made_is_not_there(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = tmp_path / "backup"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(10, 9, 1))
        with pytest.raises(CommandError, match=r"has room for 1 bytes, the backup takes "):
            backup(data, new, live=False)
    (data / "topology.sqlite").rename(tmp_path / "topology.sqlite")
    with pytest.raises(CommandError, match=r"it has no topology.sqlite"):
        backup(data, new, live=False)
    (tmp_path / "topology.sqlite").rename(data / "topology.sqlite")
    os.truncate(data / "shards/0/data.mdb", 3 * 4096)
    with pytest.raises(CommandError, match=r"damaged|shards/0"):
        backup(data, new, live=False)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_whoever_dies_of_a_damaged_file_pins_nothing(data: Path, tmp_path: Path) -> None:
    path = data / "shards/0"
    with written(path) as write:
        write(30)
        whole = (path / "data.mdb").read_bytes()
        os.truncate(path / "data.mdb", 3 * 4096)
        with pytest.raises(CommandError, match="is damaged: reading it ended in SIGBUS"):
            backup(data, tmp_path / "backup", live=True)
        (path / "data.mdb").write_bytes(whole)
        assert all(Path(f"/proc/{pid}").exists() for pid in reading_pids(path))
        assert [each.name for each in tmp_path.iterdir()] == ["data"]
        write(1)
        assert backup(data, tmp_path / "backup", live=True).manifest.problems == 0


def test_nothing_is_written_over(data: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with pytest.raises(CommandError, match=r"backup exists already$"):
        backup(data, tmp_path / "backup", live=False)
    (tmp_path / "other.unfinished").mkdir()
    with pytest.raises(CommandError, match=r"other.unfinished exists, of a backup that was cut short"):
        backup(data, tmp_path / "other", live=False)
    assert (tmp_path / "other.unfinished").exists()


def test_damaged_contents_are_told_and_kept_apart_from_what_is_sound(data: Path, tmp_path: Path) -> None:
    """A node starts on damaged contents and delivers the rest, so they do not prevent a backup."""
    change(data / "shards/0", replaced("contents", 67, b"y"))
    made = backup(data, tmp_path / "backup", live=False)
    assert made.manifest.problems == 1
    assert made.found[0].first_problems[0].endswith("its contents are damaged")
    restored(tmp_path / "backup", tmp_path / "other")
    recognise(tmp_path / "other")


def test_a_store_that_no_run_has_opened_since_there_are_witnesses_comes_along(data: Path, tmp_path: Path) -> None:
    """The store of a shard that the node once had prevents neither a backup nor a start."""
    fill(data, 5, {9: 2})
    change(data / "shards/5", lambda txn, dbs: txn.put(b"format", NUMBER.pack(2), db=dbs["facts"]))
    recognise(data)
    made = backup(data, tmp_path / "backup", live=False)
    assert [found.first_problems for found in made.found if found.problems] == [
        [f"{tmp_path}/backup/shards/5: it is of format 2: the next start of the node converts it"]
    ]
    restored(tmp_path / "backup", tmp_path / "other")
    assert recognise(tmp_path / "other").needed() == [0, 1, 5]
