"""The real console process, as the supervisor and the router see it, and what it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import READY
from penstock.node.node import machine_name
from penstock.settings import Settings
from penstock.telemetry.frames import frame
from penstock.telemetry.layout import FileName, partition
from router.core import SNAPSHOT
from tests.alone import Alone
from tests.penstock.telemetry.reading import rows, visible
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.long


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    (tmp_path / "data").mkdir()
    with Alone("console", tmp_path / "data") as alone:
        yield alone


def leave(telemetry: Path, begun: int, node: str) -> Path:
    """Write a file with one whole frame, as a writer that died long ago leaves it; return its path."""
    directory = partition(telemetry, "depth", 1)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / str(FileName(node, "shard.0.1", begun, False))
    path.write_bytes(frame([b"1\n"]))
    os.utime(path, (1, 1))
    return path


def test_it_is_ready_once_it_has_the_topology_and_follows_a_new_router(alone: Alone) -> None:
    assert alone.requests.poll(PATIENCE * 1000) and not alone.reports.poll(0)
    alone.wait_ready()
    alone.announce("started", "router", 0, 2)
    assert alone.answer() == (SNAPSHOT, {"have": 1})
    assert alone.stop() == 0
    assert "Traceback" not in alone.log


def test_at_its_end_it_has_written_shards_and_queues_with_their_places(alone: Alone) -> None:
    queue = alone.router.done("queue_declare", name="q", durable=True)
    alone.gauges.process_write(
        "shard", 0, pid=os.getpid(), incarnation=1, state=READY, started_us=alone.node.epoch, restarts=0
    )
    alone.gauges.queue_open(queue["slot"], queue["queue_id"], "/", "q", alone.node.epoch)
    alone.gauges.queue_write(queue["slot"], 3, 0, 30, 0, 3, *[0] * 12, published_bytes=30, delivered_bytes=0,
                             whole_bytes=270)  # fmt: skip
    alone.wait_ready()
    assert alone.stop() == 0
    telemetry = alone.node.settings.telemetry_directory
    found = rows(telemetry, "depth")
    assert {(row["queue"], row["shard"], row["ready"]) for row in found} == {("q", 0, 3)}
    assert sum(row["n_published"] for row in found) == 3
    shards = rows(telemetry, "shard")
    assert {(row["pid"], row["queues"]) for row in shards} == {(os.getpid(), 1)}
    assert all(row["rss"] > 0 for row in shards)


def test_the_files_of_the_dead_are_swept_at_its_start_and_after_a_death(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    telemetry, node = settings.telemetry_directory, machine_name()
    first = leave(telemetry, 1, node)
    with Alone("console", tmp_path) as alone:
        alone.wait_ready()
        wait_for(lambda: not first.exists(), what="the sweep at its start")
        second = leave(telemetry, 2, node)
        alone.announce("died", "shard", 0, 1)
        wait_for(lambda: not second.exists(), what="the sweep after a death")
    assert len(visible(telemetry, "depth")) == 2
