"""Backup and restore without a node: what is damaged or missing is named, and nothing is replaced by it."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from ops.errors import CommandError, StartError
from ops.store import manifest
from ops.store.backup import backup
from ops.store.recognition import recognise
from ops.store.replace import replace
from shard.store.stored import NUMBER
from tests.ops.store.making import change, fill
from tests.ops.store.test_check import replaced
from tests.ops.store.test_live_check import reading_pids, written
from tests.ops.store.test_recognition import run
from tests.ops.store.test_salvage import bodies, published

COUNTS = {7: 30, 8: 20}
Usage = namedtuple("Usage", ("total", "used", "free"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a node that has run, with messages on two shards."""
    data = tmp_path / "data"
    data.mkdir()
    run(data, 11)
    fill(data, 0, COUNTS, epoch=11)
    fill(data, 1, {9: 5}, epoch=11)
    run(data, 12)
    return data


def restored(source: Path, data: Path) -> list[str]:
    data.mkdir(exist_ok=True)
    return replace(source, manifest.load(source), data)


def content(data: Path) -> dict[str, bytes]:
    """Of all files but what SQLite leaves of its log where somebody has read."""
    files = [path for path in data.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {str(path.relative_to(data)): path.read_bytes() for path in files}


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


def test_what_was_there_gets_another_name(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    run(data, 13)
    fill(data, 1, {9: 5}, epoch=13)
    (data / "audit").mkdir()
    before = content(data)
    told = restored(tmp_path / "backup", data)
    assert told == [
        f"{data}/{name} is now {data}/{name}.set-aside" for name in ("topology.sqlite", "shards", "witness")
    ]
    assert {
        name.replace(".set-aside", ""): octets for name, octets in content(data).items() if ".set" in name
    } == before
    assert (data / "audit").exists()
    assert not (data / "restoring").exists()
    recognise(data)
    assert bodies(data, 1) == published({9: 5})


def test_a_node_from_elsewhere_gets_another_name_too(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    (tmp_path / "other").mkdir()
    run(tmp_path / "other", 21, shards=4)
    restored(tmp_path / "backup", tmp_path / "other")
    assert sorted(recognise(tmp_path / "other").shards) == [0, 1]


def flipped(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 1
    path.write_bytes(octets)


def altered(path: Path, **facts: Any) -> None:
    """A manifest that says something else, and vouches for it."""
    found = orjson.loads(path.read_bytes()) | facts
    del found["checksum"]
    path.write_bytes(orjson.dumps(found | {"checksum": manifest._checksum(found)}))


HARMS: list[tuple[Callable[[Path], object], str]] = [
    (lambda made: flipped(made / "shards/0/data.mdb"), "damaged: shards/0/data.mdb differs from the manifest$"),
    (lambda made: flipped(made / "topology.sqlite"), "damaged: topology.sqlite differs from the manifest$"),
    (lambda made: os.truncate(made / "shards/1/data.mdb", 4096), r"damaged: shards/1/data.mdb has 4096 of \d+ bytes$"),
    (lambda made: shutil.rmtree(made / "shards/1"), "damaged: shards/1/data.mdb is missing$"),
    (lambda made: (made / "topology.sqlite").unlink(), "damaged: topology.sqlite is missing$"),
    (
        lambda made: (made / "manifest.json").unlink(),
        "is not a backup, or one that was cut short: it has no manifest.json$",
    ),
    (lambda made: flipped(made / "manifest.json"), "manifest.json is damaged$"),
    (lambda made: os.truncate(made / "manifest.json", 0), "manifest.json is damaged$"),
    (lambda made: altered(made / "manifest.json", format=2), "of format 2, this penstock knows format 1$"),
    (
        lambda made: altered(made / "manifest.json", files={"../x": {"octets": 0, "sha256": ""}}),
        "manifest.json is damaged$",
    ),
    (lambda made: altered(made / "manifest.json", files={}), "cannot be used: topology.sqlite: it is missing$"),
    (lambda made: altered(made / "manifest.json", node=7), "cannot be used: topology.sqlite: it is of another node$"),
]


@pytest.mark.parametrize(("harm", "text"), HARMS)
def test_what_is_damaged_replaces_nothing(
    data: Path, tmp_path: Path, harm: Callable[[Path], object], text: str
) -> None:
    source = tmp_path / "backup"
    backup(data, source, live=False)
    run(data, 13)
    before = content(data)
    harm(source)
    with pytest.raises(CommandError, match=text):
        restored(source, data)
    assert content(data) == before


def test_several_files_are_named(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    for shard in (0, 1):
        (tmp_path / f"backup/shards/{shard}/data.mdb").unlink()
    with pytest.raises(CommandError, match=r"shards/0/data.mdb is missing; shards/1/data.mdb is missing$"):
        restored(tmp_path / "backup", data)


@pytest.mark.parametrize("first", [True, False])
def test_a_restore_that_is_cut_short_is_never_started_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Unless nothing has changed, or all: at whatever rename it ends. It can be done again."""
    source = tmp_path / "backup"
    backup(data, source, live=False)
    run(data, 13)
    rename = Path.rename
    started = []
    for most in range(1, 12):
        target = Path(shutil.copytree(data, tmp_path / f"cut-{most}", symlinks=True))
        if first:
            shutil.rmtree(target)
            target.mkdir()
        renames = iter(range(most - 1))

        def ended(path: Path, to: Path) -> Path:
            if next(renames, None) is None:  # noqa: B023
                raise KeyboardInterrupt
            return rename(path, to)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", ended)
            patch.setattr(shutil, "rmtree", lambda path, **_: None)
            try:
                restored(source, target)
            except KeyboardInterrupt:
                pass
            else:
                break
        there = [name for name in ("topology.sqlite", "shards", "witness") if (target / name).exists()]
        try:
            standing = recognise(target)
        except StartError:
            started.append(False)
        else:
            started.append(True)
            assert most == 1 or (first and not there), f"started on {there}"
            assert first or standing.epochs() == {13}
        restored(source, target)
        assert recognise(target).epochs() == {12}
    assert started.count(False) >= 2


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
    """A node starts on them and delivers the rest, so they are no reason to have no backup."""
    change(data / "shards/0", replaced("contents", 67, b"y"))
    made = backup(data, tmp_path / "backup", live=False)
    assert made.manifest.problems == 1
    assert made.found[0].first_problems[0].endswith("its contents are damaged")
    restored(tmp_path / "backup", tmp_path / "other")
    recognise(tmp_path / "other")


def test_stores_of_an_older_format_are_restored_and_taken_over_later(data: Path, tmp_path: Path) -> None:
    source = tmp_path / "backup"
    backup(data, source, live=False)
    for shard in (0, 1):
        change(source / f"shards/{shard}", lambda txn, dbs: txn.put(b"format", NUMBER.pack(2), db=dbs["facts"]))
    files = {f"shards/{shard}/data.mdb": manifest.digest(source / f"shards/{shard}/data.mdb") for shard in (0, 1)}
    files["topology.sqlite"] = manifest.digest(source / "topology.sqlite")
    altered(source / "manifest.json", files={path: file._asdict() for path, file in files.items()})
    restored(source, tmp_path / "other")
    recognise(tmp_path / "other")
    assert bodies(tmp_path / "other", 0) == published(COUNTS)


def test_a_store_that_no_run_has_opened_since_there_are_witnesses_comes_along(data: Path, tmp_path: Path) -> None:
    """That of a shard which a node had once: it is no reason to have no backup, nor not to start."""
    fill(data, 5, {9: 2})
    change(data / "shards/5", lambda txn, dbs: txn.put(b"format", NUMBER.pack(2), db=dbs["facts"]))
    recognise(data)
    made = backup(data, tmp_path / "backup", live=False)
    assert [found.first_problems for found in made.found if found.problems] == [
        [f"{tmp_path}/backup/shards/5: it is of format 2: the next start of the node converts it"]
    ]
    restored(tmp_path / "backup", tmp_path / "other")
    assert recognise(tmp_path / "other").needed() == [0, 1, 5]


def test_a_link_is_not_replaced(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    (data / "shards").rename(tmp_path / "elsewhere")
    (data / "shards").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match="data/shards is a link, or on another file system"):
        restored(tmp_path / "backup", data)
