"""The lock and the pointer of a data directory."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from ops.claim import Pointer, claimed, is_claimed
from ops.errors import StartError
from tests.waiting import wait_for


def test_one_at_a_time(tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    assert not is_claimed(data)
    with claimed(data):
        assert is_claimed(data)
        with (
            pytest.raises(StartError, match=rf"{data} is in use by another broker \(pid {os.getpid()}\)"),
            claimed(data),
        ):
            pass
        assert is_claimed(data)
    assert not is_claimed(data)
    with claimed(data):
        pass


def test_a_command_that_looks_whether_a_node_runs_keeps_none_from_starting(tmp_path: Path) -> None:
    """A probe of a container, for example."""
    done = threading.Event()

    def claim() -> None:
        with claimed(tmp_path):
            done.set()

    def has_begun() -> bool:
        inode = (tmp_path / "lock").stat().st_ino if (tmp_path / "lock").exists() else -1
        return re.search(rf"FLOCK .*WRITE .*:{inode} ", Path("/proc/locks").read_text()) is not None

    command = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(command, fcntl.LOCK_SH)
        node = threading.Thread(target=claim)
        node.start()
        wait_for(has_begun, what="a start that waits for the command")
        assert not done.is_set()
    finally:
        os.close(command)
    node.join()
    assert done.is_set()


@pytest.mark.long
def test_no_second_one_though_the_lock_file_is_deleted(tmp_path: Path) -> None:
    with claimed(tmp_path):
        Pointer(12, tmp_path / "run", tmp_path / "x.gauges").store(tmp_path)
        (tmp_path / "lock").unlink()
        assert is_claimed(tmp_path)
        for _ in range(2):
            with pytest.raises(StartError, match=r"is in use by another broker \(pid 12\)"), claimed(tmp_path):
                pass
        assert Pointer.load(tmp_path) is not None


def test_what_is_there_is_for_its_owner_alone(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (data / "telemetry" / "live").mkdir(parents=True)
    for path, mode in ((data, 0o755), (data / "telemetry", 0o777), (data / "telemetry" / "live", 0o750)):
        path.chmod(mode)
    for path in (data / "topology.sqlite", data / "telemetry" / "live" / "rows", elsewhere):
        path.touch()
        path.chmod(0o666)
    (data / "link").symlink_to(elsewhere)
    data.chmod(0o755)
    with claimed(data):
        (data / "new").mkdir()
        (data / "new" / "file").touch()
    assert modes(data) == {
        ".": 0o700, "lock": 0o600, "telemetry": 0o700, "telemetry/live": 0o700, "telemetry/live/rows": 0o600,
        "topology.sqlite": 0o600, "new": 0o700, "new/file": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o666
    (elsewhere.parent / "after").touch()
    assert stat.S_IMODE((elsewhere.parent / "after").stat().st_mode) == 0o666 & ~mask()


def modes(data: Path) -> dict[str, int]:
    """Return the modes of all files and directories but links, by path."""
    found = [path for path in (data, *data.rglob("*")) if not path.is_symlink()]
    return {str(path.relative_to(data)): stat.S_IMODE(path.stat().st_mode) for path in found}


def mask() -> int:
    was = os.umask(0o022)
    os.umask(was)
    return was


def test_a_directory_of_all_is_none_for_data(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(StartError, match="is world-writable"), claimed(tmp_path):
        pass
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
    assert not (tmp_path / "lock").exists()


def test_looking_creates_nothing(tmp_path: Path) -> None:
    assert not is_claimed(tmp_path / "none")
    assert Pointer.load(tmp_path / "none") is None
    assert list(tmp_path.iterdir()) == []


def test_a_pointer_lives_as_long_as_the_claim(tmp_path: Path) -> None:
    pointer = Pointer(12, tmp_path / "run", tmp_path / "x.gauges")
    with claimed(tmp_path):
        pointer.store(tmp_path)
        assert Pointer.load(tmp_path) == pointer
    assert Pointer.load(tmp_path) is None
    with pytest.raises(ZeroDivisionError), claimed(tmp_path):
        _store_and_fail(pointer, tmp_path)
    assert Pointer.load(tmp_path) is None


def _store_and_fail(pointer: Pointer, data: Path) -> None:
    pointer.store(data)
    raise ZeroDivisionError


def test_leftovers_of_a_killed_node_go(tmp_path: Path) -> None:
    runtime, gauges = tmp_path / "run", tmp_path / "x.gauges"
    runtime.mkdir()
    (runtime / "node.json").touch()
    gauges.touch()
    data = tmp_path / "data"
    data.mkdir()
    Pointer(12, runtime, gauges).store(data)
    with claimed(data):
        assert not runtime.exists()
        assert not gauges.exists()
        assert Pointer.load(data) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x", "runtime": "r", "gauges": "g"}'])
def test_a_damaged_pointer_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text)
    assert Pointer.load(tmp_path) is None


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data = tmp_path / "file" / "data"
    with pytest.raises(StartError, match=f"cannot use the data directory {data}: Not a directory"), claimed(data):
        pass
