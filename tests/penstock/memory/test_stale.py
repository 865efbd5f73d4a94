"""Files of gauges that nodes left behind."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from penstock.memory.layout import LAYOUT_VERSION, MAGIC
from penstock.memory.stale import remove_stale
from tests.penstock.memory.gauges_file import (
    make,
)
from tests.waiting import wait_for


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def left(directory: Path, request: pytest.FixtureRequest) -> Path:
    """Return a directory that stands in for /dev/shm."""
    path = directory / f"left-{request.node.name}"
    path.mkdir()
    return path


def test_gauges_of_dead_nodes_are_removed(left: Path, dead_pid: int) -> None:
    stale = left / "penstock-0-stale.gauges"
    make(stale, pid=dead_pid).close()
    alive, other_name = left / "penstock-0-alive.gauges", left / "somebody.gauges"
    make(alive).close()
    make(other_name, pid=dead_pid).close()
    assert remove_stale(left) == [stale]
    assert sorted(left.iterdir()) == [alive, other_name]
    assert remove_stale(left) == []


def test_gauges_of_killed_nodes_are_removed_before_anyone_waits_for_them(left: Path) -> None:
    path = left / "penstock-0-killed.gauges"
    program = """if True:
        import os, sys, time
        from penstock.memory.gauges import Gauges
        gauges = Gauges.create(sys.argv[1], epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid())
        print("made", flush=True)
        time.sleep(600)"""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"made\n"
        assert remove_stale(left) == []
        process.kill()
        assert wait_for(lambda: remove_stale(left)) == [path]


def test_gauges_still_held_by_their_creator_stay(left: Path, dead_pid: int) -> None:
    path = left / "penstock-0-elsewhere.gauges"
    with make(path, pid=dead_pid):
        assert remove_stale(left) == []
        Gauges.open(path).close()
        assert remove_stale(left) == []
    assert remove_stale(left) == [path]


def test_gauges_of_another_version_are_removed(left: Path, dead_pid: int) -> None:
    old = left / "penstock-0-old.gauges"
    old.write_bytes(MAGIC + struct.pack("=QQQ", 99, 1, dead_pid))
    short = left / "penstock-0-short.gauges"
    short.write_bytes(MAGIC)
    absurd = left / "penstock-0-absurd.gauges"
    absurd.write_bytes(MAGIC + struct.pack("=QQQ", LAYOUT_VERSION, 1, 2**64 - 1))
    assert remove_stale(left) == [absurd, old, short]


def test_files_of_others_are_left_alone(left: Path, dead_pid: int) -> None:
    (left / "penstock-0-empty.gauges").write_bytes(b"")
    (left / "penstock-0-foreign.gauges").write_bytes(b"something else")
    (left / "penstock-0-directory.gauges").mkdir()
    os.mkfifo(left / "penstock-0-pipe.gauges")
    make(left / "target", pid=dead_pid).close()
    (left / "penstock-0-link.gauges").symlink_to(left / "target")
    before = sorted(left.iterdir())
    assert remove_stale(left) == []
    assert sorted(left.iterdir()) == before


def test_a_directory_that_is_not_there(left: Path) -> None:
    assert remove_stale(left / "nowhere") == []
