"""The gate of a shard: gauges, broadcasts and log lines when it closes and opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.limits.watermarks import Marks
from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from penstock.settings.sections import MemorySettings, StoreSettings
from shard.turns.gate import BEGINS, ENDS, Gate, marks_of, memory_of
from shard.turns.room import FULL, MEMORY, PROCESSES, REMINDER, RESOURCES, SPILL, UNWRITTEN

INDEX = 1
MIB = 1 << 20


class World:
    """The gate of the second of two shards, broadcasts and log lines. `settings`: a shard may use 1 MiB of memory."""

    def __init__(self, gauges: Gauges, logs: list[Any]) -> None:
        self.gauges = gauges
        self.logs = logs
        self.sent: list[tuple[int, bool, int]] = []
        self.settings = Settings(
            shards=2, memory_limit=2 * MIB, memory=MemorySettings(stop_percent=100, resume_percent=50)
        )
        self.gate = Gate(INDEX, gauges, self.settings, 5, lambda *flow: self.sent.append(flow))

    def shown(self) -> tuple[bool, str, int]:
        """Return whether the gauges show a saturated gate, its reason, and when that changed."""
        gauge = self.gauges.queue_read(INDEX)
        assert gauge is not None
        return gauge.saturated, gauge.name, gauge.saturated_since_us

    def logged(self) -> list[tuple[str, str]]:
        """Return level and text of the log lines since the last call."""
        lines = [(each["log_level"], each["event"]) for each in self.logs]
        self.logs.clear()
        return lines


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with (
        capture_logs() as logs,
        Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=2, queues=1, pid=os.getpid()) as gauges,
    ):
        yield World(gauges, logs)


def test_it_closes_and_opens_with_a_broadcast_each(world: World) -> None:
    reason = "its share of the node's memory is used up"
    assert world.shown() == (False, "", 5)
    world.gate.update_use(MIB, 0, 0, 10)
    assert not world.sent
    world.gate.update_use(MIB + 1, 0, 0, 20)
    world.gate.update_use(MIB + 2, 0, 0, 30)
    assert world.shown() == (True, reason, 20)
    world.gate.update_use(MIB // 2, 0, 0, 40)
    assert world.shown() == (False, "", 40)
    assert world.sent == [(-1 - INDEX, True, 1), (-1 - INDEX, False, 2)]
    assert world.logged() == [("warning", BEGINS[MEMORY]), ("warning", ENDS[MEMORY])]


def test_a_later_incarnation_counts_epochs_on(world: World) -> None:
    """Acceptors would take a repeated epoch for an old broadcast."""
    world.gate.update_use(MIB + 1, 0, 0, 20)
    later = Gate(INDEX, world.gauges, world.settings, 30, lambda *flow: world.sent.append(flow))
    later.update_use(MIB + 1, 0, 0, 40)
    assert world.sent == [(-1 - INDEX, True, 1), (-1 - INDEX, True, 2)]


def test_a_smaller_share_closes_it(world: World) -> None:
    world.gate.update_use(MIB, 0, 0, 10)
    world.gate.limit(marks_of(world.settings, 4), 20)
    assert world.shown()[0]
    world.gate.limit(marks_of(world.settings, 1), 30)
    assert not world.shown()[0]


def test_trouble_with_the_store_is_an_error_and_repeated_from_time_to_time(world: World) -> None:
    world.gate.store_works(UNWRITTEN, 1)
    for now in (10, 20, 20 + REMINDER):
        world.gate.store_fails(UNWRITTEN, "No space left on device", now)
    assert world.shown() == (True, "its store cannot be written: No space left on device", 10)
    world.gate.store_works(UNWRITTEN, 30 + REMINDER)
    assert world.logged() == [
        ("error", "store in trouble"), ("error", "store still in trouble"), ("warning", "store works again"),
    ]  # fmt: skip


def test_it_opens_only_when_every_cause_has_ended(world: World) -> None:
    world.gate.update_use(MIB + 1, 100, 0, 10)
    world.gate.store_overflows(20)
    assert world.shown()[1].startswith("its share of the node's memory is used up; its store is full: ")
    world.gate.update_use(0, 100, 0, 30)
    assert world.shown()[0] and world.sent == [(-1 - INDEX, True, 1)]
    world.gate.update_use(0, 10, 0, 40)
    assert world.shown() == (False, "", 40)


def test_every_resource_has_its_log_lines() -> None:
    assert set(BEGINS) == set(ENDS) == set(RESOURCES)
    assert len({*BEGINS.values(), *ENDS.values()}) == 2 * len(RESOURCES)


def test_limits_are_divided_among_shards_but_for_the_memory_of_processes() -> None:
    settings = Settings(
        shards=4, memory_limit=400,
        memory=MemorySettings(stop_percent=90, resume_percent=70, process_limit=1000),
        store=StoreSettings(limit=800, spill_limit=1200, stop_percent=100, resume_percent=95),
    )  # fmt: skip
    assert marks_of(settings, 4) == {
        MEMORY: Marks(0, 0, 90, 70), PROCESSES: Marks(0, 0, 900, 700),
        FULL: Marks(0, 0, 200, 190), SPILL: Marks(0, 0, 300, 285),
    }  # fmt: skip
    assert memory_of(settings, 4) == (100, 70)
