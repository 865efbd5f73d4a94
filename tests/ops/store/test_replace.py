"""A backup replaces the stores as a whole, or nothing if a file is damaged or missing, which is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from ops.errors import CommandError, StartError
from ops.store import manifest
from ops.store.backup import backup
from ops.store.recognition import recognise
from shard.store.stored import NUMBER
from tests.ops.store.copies import COUNTS, content, ran, restored
from tests.ops.store.making import change, fill
from tests.ops.store.test_recognition import run
from tests.ops.store.test_salvage import bodies, published


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return ran(tmp_path / "data")


def test_what_was_there_gets_another_name(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    run(data, 13)
    fill(data, 1, {9: 5}, epoch=13)
    (data / "audit").mkdir()
    before = content(data)
    answer = restored(tmp_path / "backup", data)
    assert answer == [
        f"{data}/{name} is now {data}/{name}.set-aside" for name in ("topology.sqlite", "shards", "witness")
    ]
    assert {
        name.replace(".set-aside", ""): nbytes for name, nbytes in content(data).items() if ".set" in name
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
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def altered(path: Path, **facts: Any) -> None:
    """Change facts of a manifest, and its checksum to match."""
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
        lambda made: altered(made / "manifest.json", files={"../x": {"size": 0, "sha256": ""}}),
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
    """Wherever the renames stop, no node starts on a mixture, and the restore can be repeated."""
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


def test_a_link_is_not_replaced(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "backup", live=False)
    (data / "shards").rename(tmp_path / "elsewhere")
    (data / "shards").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match="data/shards is a link, or on another file system"):
        restored(tmp_path / "backup", data)
