"""Room that a store keeps behind the end of its file."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from shard.contents.errors import StoreError
from shard.store import headroom
from shard.store.environment import Environment
from shard.store.headroom import Headroom

MIB = 1024 * 1024


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_it_is_behind_the_end(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    path.write_bytes(bytes(4096))
    room = Headroom(path, MIB)
    assert room.ensure(4096)
    assert path.stat().st_size == 4096 and allocated(path) >= MIB
    before = allocated(path)
    assert room.ensure(MIB // 2) and allocated(path) == before, "half of it is enough"
    assert room.ensure(MIB) and allocated(path) >= 2 * MIB - 4096


def test_it_leaves_the_rest_of_the_disk_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ext4 allocates what it has and then reports a lack, so free space is checked first, unless nothing is missing."""
    path = tmp_path / "data.mdb"
    path.write_bytes(bytes(4096))
    free = [MIB + headroom.OTHERS - 8192, MIB + headroom.OTHERS, 0]
    monkeypatch.setattr(headroom.shutil, "disk_usage", lambda _: SimpleNamespace(free=free.pop(0)))
    before = allocated(path)
    assert not Headroom(path, MIB).ensure(4096) and allocated(path) == before
    assert Headroom(path, MIB).ensure(4096) and allocated(path) >= MIB
    assert Headroom(path, MIB).ensure(4096)


@pytest.mark.parametrize(("error", "there"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EOPNOTSUPP, True)])
def test_a_disk_that_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, there: bool) -> None:
    monkeypatch.setattr(headroom, "_allocate", lambda *_: error)
    (tmp_path / "data.mdb").touch()
    assert Headroom(tmp_path / "data.mdb").ensure(0) is there


def test_what_is_free_in_the_file_counts_once_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment(tmp_path, ["x"], 64 * MIB, synced=False)
    piece = bytes(MIB)
    keys = [b"%d" % number for number in range(24)]
    for key in keys:
        environment.write(lambda txn, key=key: txn.put(key, piece, db=environment["x"]))
    monkeypatch.setattr(headroom, "_allocate", lambda *_: errno.ENOSPC)
    environment._headroom = Headroom(tmp_path / "data.mdb")
    assert not environment.has_room(was_full=False)
    answers = []
    for key in keys:
        environment.write(lambda txn, key=key: txn.delete(key, db=environment["x"]))
        answers.append((environment.has_room(was_full=False), environment.has_room(was_full=True)))
    environment.close()
    assert answers.index((True, False)) == 7 or answers.index((True, False)) == 8
    assert answers[-1] == (True, True) and answers == sorted(answers)


def test_of_a_file_that_is_closed_nothing_can_be_told(tmp_path: Path) -> None:
    environment = Environment(tmp_path, ["x"], MIB, synced=False)
    environment.close()
    with pytest.raises(StoreError):
        environment.has_room(was_full=False)


def test_a_file_that_grows_has_half_of_it_at_least(tmp_path: Path) -> None:
    environment = Environment(tmp_path, ["x"], 64 * MIB, synced=False)
    path = tmp_path / "data.mdb"
    for number in range(32):
        environment.write(lambda txn, key=b"%d" % number: txn.put(key, bytes(MIB), db=environment["x"]))
        assert environment.has_room(was_full=False)
        assert path.stat().st_blocks * 512 >= path.stat().st_size + headroom.BYTES // 2
    environment.close()
