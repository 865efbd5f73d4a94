"""Checks of the disk: directories, file systems, room, flushes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.doctor import disk
from ops.doctor.finding import Level
from penstock.settings import Settings
from penstock.settings.values import MIB

OK, ADVICE, PROBLEM = Level.OK, Level.ADVICE, Level.PROBLEM


def test_a_directory_that_will_be_made(tmp_path: Path) -> None:
    found = disk.directory(tmp_path / "a" / "b")
    assert (found.level, found.text) == (OK, f"{tmp_path}/a/b will be made")
    assert disk.directory(tmp_path).level is OK


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert disk.directory(tmp_path / "file").level is PROBLEM


def test_a_directory_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "is not writable" in disk.directory(tmp_path / "data").text
    monkeypatch.setattr("os.access", lambda path, mode: True)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    owner = disk.owner_of(tmp_path)
    found = disk.directory(tmp_path)
    assert (found.level, found.text) == (PROBLEM, f"{tmp_path} belongs to the user {owner}")
    assert found.remedy.startswith(f"sudo -u {owner} ")


def test_an_owner_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(disk, "getpwuid", unknown)
    assert disk.owner_of(tmp_path) == str(tmp_path.stat().st_uid)


@pytest.mark.parametrize(
    ("kind", "level"), [("ext4", OK), ("xfs", OK), ("nfs4", PROBLEM), ("tmpfs", ADVICE), ("overlay", ADVICE)]
)
def test_file_systems(tmp_path: Path, kind: str, level: Level) -> None:
    """The last mount above the directory counts, whatever is in its name."""
    there = tmp_path / "with space"
    there.mkdir()
    escaped = str(there).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - btrfs /dev/a rw\n"
        f"23 22 8:2 / {tmp_path} rw - vfat /dev/b rw\n"
        f"24 22 8:2 / {escaped} rw master:1 propagate_from:2 - {kind} some:/where rw\n"
        f"25 22 8:2 / {tmp_path}/wit rw - sysfs none rw\n"
    )
    found = disk.file_system(there / "data", mounts)
    assert (found.level, found.text.split(":")[0]) == (level, kind)


def test_the_file_system_of_this_machine(tmp_path: Path) -> None:
    assert "unknown" not in disk.file_system(tmp_path).text


def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.room(Settings(data=tmp_path)).level is OK
    settings = Settings(data=tmp_path, store={"limit": 64 * MIB})
    monkeypatch.setattr("ops.doctor.disk.free_disk", lambda path: 32 * MIB)
    found = disk.room(settings)
    assert (found.level, found.text.split(":")[0]) == (PROBLEM, "stores may use 64 of 32 MiB")


@pytest.mark.parametrize(
    ("took", "level", "text"),
    [
        ([900.0, 1_000.0, 5_000.0], OK, "1,000 µs to flush 4 KiB, at most 5,000 of 3 times"),
        ([4.0, 5.0, 90.0], ADVICE, "too soon for a disk"),
        ([25_000.0, 30_000.0], ADVICE, "each confirm of persistent messages takes as long"),
    ],
)
def test_flushes(tmp_path: Path, took: list[float], level: Level, text: str) -> None:
    found = disk.flushes(tmp_path, took)
    assert found.level is level
    assert text in found.text


def test_a_disk_is_tried_and_nothing_stays_there(tmp_path: Path) -> None:
    assert "µs to flush" in disk.flushes(tmp_path / "data").text
    assert not list(tmp_path.iterdir())


def test_a_disk_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    found = disk.flushes(tmp_path)
    assert (found.level, "No space left" in found.text) == (PROBLEM, True)
