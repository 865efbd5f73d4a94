"""Checks of the machine, of which each has something to complain about."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from ops.doctor import machine
from ops.doctor.finding import Level
from penstock.settings import Settings
from penstock.settings.values import MIB

OK, ADVICE, PROBLEM = Level.OK, Level.ADVICE, Level.PROBLEM


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc to be filled."""
    for name in ("sys/net/core", "sys/vm"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def settings(tmp_path: Path, **more: Any) -> Settings:
    return Settings(data=tmp_path / "data", **more)


@pytest.mark.parametrize(("uid", "level"), [(0, ADVICE), (1000, OK)])
def test_root(uid: int, level: Level) -> None:
    assert machine.user(uid).level is level


def test_more_processes_than_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))
    assert machine.cores(settings(tmp_path, acceptors=2, shards=2)).level is OK
    found = machine.cores(settings(tmp_path, acceptors=4, shards=4))
    assert (found.level, found.remedy) == (ADVICE, "--acceptors 2 --shards 2, or more cores")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert machine.cores(settings(tmp_path, acceptors=1, shards=1)).level is OK  # there are no fewer


@pytest.mark.parametrize(("limit", "level"), [(500 * MIB, OK), (850 * MIB, ADVICE), (1100 * MIB, PROBLEM)])
def test_contents_that_do_not_fit(tmp_path: Path, limit: int, level: Level) -> None:
    found = machine.memory(settings(tmp_path, memory_limit=limit), usable=1000 * MIB)
    assert found.level is level
    assert "of 1,000 MiB" in found.text
    assert not found.remedy or found.remedy == f"--set memory_limit={800 * MIB}"


@pytest.mark.parametrize(("total", "free", "level"), [(0, 0, OK), (1000, 950, OK), (1000, 500, ADVICE)])
def test_swap_in_use(proc: Path, total: int, free: int, level: Level) -> None:
    (proc / "meminfo").write_text(f"MemTotal: 9000 kB\nSwapTotal: {total} kB\nSwapFree: {free} kB\n")
    assert machine.swap(proc).level is level


@pytest.mark.parametrize(("hard", "level"), [(512, PROBLEM), (4096, ADVICE), (65536, OK), (resource.RLIM_INFINITY, OK)])
def test_files(hard: int, level: Level) -> None:
    found = machine.files((256, hard))
    assert found.level is level
    assert bool(found.remedy) is (level is not OK)


def test_shared_memory(tmp_path: Path) -> None:
    few = settings(tmp_path, max_queues=100)
    assert machine.shared_memory(few, tmp_path).level is OK
    assert not list(tmp_path.glob("penstock-doctor-*"))
    missing = machine.shared_memory(few, tmp_path / "none")
    assert (missing.level, "No such file" in missing.text) == (PROBLEM, True)


def test_too_little_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_bavail, f_frsize = 1, 4096

    few = settings(tmp_path, max_queues=100)
    monkeypatch.setattr("os.statvfs", lambda path: Small)
    found = machine.shared_memory(few, tmp_path)
    assert found.level is PROBLEM
    assert "smaller max_queues" in found.remedy


@pytest.mark.parametrize(("most", "level"), [(128, ADVICE), (4096, OK), (65535, OK)])
def test_backlog(proc: Path, most: int, level: Level) -> None:
    (proc / "sys/net/core/somaxconn").write_text(f"{most}\n")
    found = machine.backlog(proc)
    assert found.level is level
    assert found.text.startswith(f"{min(most, 4096)} clients")


@pytest.mark.parametrize(("mode", "level"), [(0, OK), (1, OK), (2, ADVICE)])
def test_overcommit(proc: Path, mode: int, level: Level) -> None:
    (proc / "sys/vm/overcommit_memory").write_text(f"{mode}\n")
    assert machine.overcommit(proc).level is level
