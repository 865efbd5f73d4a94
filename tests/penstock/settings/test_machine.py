"""The resources of the machine that settings default to."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from penstock.settings.control_groups import memory_limit
from penstock.settings.machine import free_disk, half_the_cores, stored_bytes, usable_memory
from penstock.settings.sources import load_settings


def test_data_directory_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert load_settings().data == tmp_path / "penstock"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings().data == tmp_path / ".local/share/penstock"


def test_what_is_stored_already_counts_as_room_for_the_store(tmp_path: Path) -> None:
    """Otherwise a store that had room would be full after a restart."""
    assert stored_bytes(tmp_path / "none") == 0
    for name in ("shards/0/data.mdb", "shards/1/data.mdb", "shards/1/spill/data.mdb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (1 << 20))
    (tmp_path / "shards" / "other").write_bytes(b"x" * (1 << 20))
    assert stored_bytes(tmp_path) == 3 << 20


def test_a_process_may_be_bound_to_a_part_of_the_cores() -> None:
    before = os.sched_getaffinity(0)
    assert 1 <= half_the_cores() <= max(1, len(before) // 2)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert half_the_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_memory_is_the_machines_or_the_lower_limit_of_its_groups() -> None:
    limit = memory_limit()
    assert usable_memory() == min(psutil.virtual_memory().total, limit or 1 << 62) > 0


def test_the_free_disk_of_a_directory_is_that_of_the_nearest_one_that_exists(tmp_path: Path) -> None:
    """The room for a data directory is computed before the node makes it."""
    (tmp_path / "shm").symlink_to("/proc")
    assert free_disk(tmp_path / "shm" / "a" / "b") == free_disk(Path("/proc")) == 0
    assert free_disk(tmp_path / "a" / "b") > 0


def test_a_store_that_is_deleted_meanwhile_has_no_bytes(tmp_path: Path) -> None:
    for name in ("shards/0/data.mdb", "shards/1/data.mdb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.symlink_to("nowhere")
    assert stored_bytes(tmp_path) == 0
