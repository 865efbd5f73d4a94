"""Room on a shard's disk: the gate is closed while there is none, and the disk is rechecked until there is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from shard.disk_room import CHECK_SECONDS, DiskRoom
from shard.store.store import Store
from shard.turns.room import DISK, TROUBLES
from tests.shard.store.test_flushes import Loop
from tests.simulator.joined.node import Node

LIMIT = 1 << 24


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path, LIMIT, durable=False, epoch=1)
    yield store
    store.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a disk with nothing free until `free` is set."""
    usage = SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    return usage


def room_of(node: Node, loop: Loop, store: Store, checks: list[float]) -> DiskRoom:
    core = node.shard(0)
    return DiskRoom(loop, store, core.state, core.gate, lambda: checks.append(loop.clock))


def is_open(node: Node) -> bool:
    room = node.shard(0).gate.room
    assert room.saturated == (DISK in room.causes) == node.gauges.saturated(0)
    return not room.saturated


def test_a_disk_with_room_leaves_the_gate_open_and_is_not_checked_again(
    node: Node, loop: Loop, store: Store, disk: SimpleNamespace
) -> None:
    disk.free = 1 << 40
    checks: list[float] = []
    room_of(node, loop, store, checks)
    loop.clock += 10 * CHECK_SECONDS
    loop.turn()
    assert is_open(node) and not checks


def test_a_full_disk_closes_the_gate_until_a_check_finds_room(
    node: Node, loop: Loop, store: Store, disk: SimpleNamespace
) -> None:
    checks: list[float] = []
    room = room_of(node, loop, store, checks)
    assert not is_open(node), "known from the start, before any message is accepted"
    assert TROUBLES[DISK] in node.shard(0).gate.room.reason
    disk.free = 1 << 40
    room.check()
    assert not is_open(node), "the thread that writes only checks"
    room.report()
    assert is_open(node)


def test_a_full_disk_is_checked_once_a_second(node: Node, loop: Loop, store: Store, disk: SimpleNamespace) -> None:
    checks: list[float] = []
    room = room_of(node, loop, store, checks)
    began = loop.clock
    for _ in range(3):
        room.report()  # each commit reports, too
    loop.clock += 0.9 * CHECK_SECONDS
    loop.turn()
    assert not checks
    loop.clock = began + CHECK_SECONDS
    loop.turn()
    assert checks == [loop.clock]
    loop.clock += 10 * CHECK_SECONDS
    loop.turn()
    assert len(checks) == 1, "the next second begins with the report"
    room.report()
    loop.clock += CHECK_SECONDS
    loop.turn()
    assert len(checks) == 2


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_a_check_that_fails_leaves_the_last_answer(
    node: Node, loop: Loop, tmp_path: Path, disk: SimpleNamespace, free: int
) -> None:
    store = Store(tmp_path / "closed", LIMIT, durable=False, epoch=1)
    disk.free = free
    room = room_of(node, loop, store, [])
    store.close()
    disk.free = 1 << 40
    room.check()
    room.report()
    assert is_open(node) == (free > 0)


def test_a_shard_that_ends_checks_no_more(node: Node, loop: Loop, store: Store, disk: SimpleNamespace) -> None:
    checks: list[float] = []
    room_of(node, loop, store, checks).stop()
    loop.clock += 10 * CHECK_SECONDS
    loop.turn()
    assert not checks
