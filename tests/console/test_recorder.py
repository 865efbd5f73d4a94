"""Rows of the recorder from the gauges: each queue's counts once, whatever changes when, and its quiet time too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from console.recorder import QUIET_READINGS, STANDING_READINGS, Recorder, Usage
from penstock.memory.gauges import READY, Gauges
from penstock.telemetry.schema import DEPTH, SHARD, Table
from router.model.records import Queue
from router.model.topology import Topology
from tests.penstock.telemetry.reading import check

SHARDS, QUEUES = 2, 130
BEGUN = 1_700_000_000_000_000
SECOND = 1_000_000
SLOT = 40
"""The regular row of a quiet queue in this slot comes at the 40th reading."""
Row = dict[str, Any]


def declared(id: int, shard: int = 0, name: str | None = None, policy: str | None = None) -> Queue:
    return Queue("/", name or f"q{id}", id, 0, shard, True, False, None, {}, [], [], policy)


class Scene:
    """Gauges, and a recorder that reads them at times that a test chooses."""

    def __init__(self, path: Path, since: int = BEGUN) -> None:
        self.path = path
        self.gauges = Gauges.create(path, epoch=BEGUN, acceptors=1, shards=SHARDS, queues=QUEUES, pid=os.getpid())
        for shard in range(SHARDS):
            self.live(shard, 100 + shard, 1)
        self.topology = Topology(0, [["vhost", "/"]])
        self.rows: list[tuple[Table, Row]] = []
        self.now = BEGUN
        self.recorder = Recorder(self.gauges, self.topology, self.put, 1000, since)
        self.cpu = 0.0

    def put(self, table: Table, ts: int, facts: Row) -> None:
        row = {"ts": ts, **facts}
        common = {"v": 1, "node": "n", "epoch": BEGUN, "writer": "w", "seq": 1, "rows_lost": 0}
        check(table.name, {**common, **row})
        self.rows.append((table, row))

    def live(self, shard: int, pid: int, incarnation: int) -> None:
        self.gauges.process_write(
            "shard", shard, pid=pid, incarnation=incarnation, state=READY, started_us=BEGUN, restarts=incarnation - 1
        )

    def open(self, slot: int, queue: Queue, since: int = 0) -> None:
        """Open a queue's record; `since` is when its counters began, if not now."""
        self.topology.apply(queue.change())
        self.gauges.queue_open(slot, queue.queue_id, queue.vhost, queue.name, since or self.now)

    def write(self, slot: int, ready: int = 0, published: int = 0, delivered: int = 0) -> None:
        self.gauges.queue_write(
            slot, ready, 0, 10 * ready, 0, published, delivered, delivered, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            published_bytes=10 * published, delivered_bytes=10 * delivered, whole_bytes=90 * ready,
        )  # fmt: skip

    def sample(self, seconds: float = 1, dead: tuple[int, ...] = ()) -> list[tuple[Table, Row]]:
        """Return the rows of the next reading."""
        self.now += int(seconds * SECOND)
        self.cpu += seconds / 4
        before = len(self.rows)
        use = {shard: Usage(100 + shard, self.cpu, 5000) for shard in range(SHARDS) if shard not in dead}
        self.recorder.record_all(self.now, use)
        return self.rows[before:]

    def depths(self, seconds: float = 1) -> list[Row]:
        return [row for table, row in self.sample(seconds) if table is DEPTH]

    def close(self) -> None:
        self.gauges.close()
        self.path.unlink()


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(Path(f"/dev/shm/test-recorder-{os.getpid()}.gauges"))
    yield scene
    scene.close()


def counts(row: Row) -> tuple[Any, ...]:
    return row["ts"], row["interval_ms"], row["n_published"], row["published_bytes"], row["n_delivered"]


def test_counts_begin_with_the_queue(scene: Scene) -> None:
    scene.now += SECOND
    scene.open(SHARDS, declared(7, shard=1, policy="p"))
    scene.write(SHARDS, ready=3, published=5, delivered=2)
    (row,) = scene.depths(0.5)
    assert counts(row) == (BEGUN + 1_500_000, 500, 5, 50, 2)
    assert (row["vhost"], row["queue"], row["shard"], row["policy"]) == ("/", "q7", 1, "p")
    assert (row["ready"], row["ready_bytes"], row["whole_bytes"], row["consumers"]) == (3, 30, 270, 1)


def test_a_queue_that_changes_has_a_row_each_second(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    for published in (5, 9):
        scene.write(SHARDS, published=published, delivered=published)
        scene.rows += [(DEPTH, row) for row in scene.depths()]
    scene.write(SHARDS, published=10, delivered=9)
    assert counts(scene.depths()[-1]) == (BEGUN + 3 * SECOND, 1000, 1, 10, 0)
    assert scene.depths() == []


def test_quiet_time_is_told_before_what_ends_it(scene: Scene) -> None:
    scene.open(SLOT, declared(7))
    scene.write(SLOT, published=5, delivered=5)
    scene.depths()
    for _ in range(4):
        assert scene.depths() == []
    scene.write(SLOT, published=6, delivered=5)
    quiet, now = scene.depths()
    assert counts(quiet) == (BEGUN + 5 * SECOND, 4000, 0, 0, 0)
    assert counts(now) == (BEGUN + 6 * SECOND, 1000, 1, 10, 0)


def test_standing_and_empty_queues_have_their_rows_in_turn(scene: Scene) -> None:
    for number in range(120):
        scene.open(SHARDS + number, declared(number + 1))
        scene.write(SHARDS + number, ready=number % 2, published=1)
    scene.depths()
    found: dict[str, list[int]] = {}
    most = 0
    for sample in range(QUIET_READINGS):
        rows = scene.depths()
        most = max(most, len(rows))
        for row in rows:
            found.setdefault(row["queue"], []).append(sample)
    assert {name: len(checks) for name, checks in found.items()} == {
        f"q{number + 1}": QUIET_READINGS // STANDING_READINGS if number % 2 else 1 for number in range(120)
    }
    assert most <= 120 // STANDING_READINGS + 120 // QUIET_READINGS


def test_a_queue_that_the_topology_does_not_have_yet_waits_for_it(scene: Scene) -> None:
    """The gauges may be ahead of the topology."""
    scene.gauges.queue_open(SHARDS, 7, "/", "q7", scene.now)
    scene.write(SHARDS, published=5)
    assert scene.depths() == []
    scene.topology.apply(declared(7).change())
    assert [counts(row) for row in scene.depths()] == [(BEGUN + 2 * SECOND, 2000, 5, 50, 0)]


def test_names_are_those_of_the_topology(scene: Scene) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    scene.open(SHARDS, declared(7, name=name))
    assert [row["queue"] for row in scene.depths()] == [name]


def test_another_queue_in_the_same_slot_begins_anew(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, ready=5, published=5)
    scene.depths()
    scene.gauges.queue_close(SHARDS)
    scene.topology.apply(["queue_gone", "/", "q7", 7])
    scene.open(SHARDS, declared(8, shard=1))
    scene.write(SHARDS, ready=2, published=2)
    assert [(row["queue"], row["n_published"]) for row in scene.depths()] == [("q8", 2)]
    shards = [row for table, row in scene.sample() if table is SHARD]
    assert [(row["queues"], row["ready"]) for row in shards] == [(0, 0), (1, 2)]


def test_a_queue_that_is_gone_has_no_rows(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, ready=5, published=5)
    scene.depths()
    scene.gauges.queue_close(SHARDS)
    scene.topology.apply(["queue_gone", "/", "q7", 7])
    assert [scene.depths() for _ in range(QUIET_READINGS)] == [[]] * QUIET_READINGS


def test_a_later_incarnation_of_the_shard_counts_from_0(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, published=5)
    scene.depths()
    scene.now += 1
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, published=2)
    assert [row["n_published"] for row in scene.depths()] == [2]


@pytest.mark.parametrize("to", [SHARDS, SHARDS + 1, SHARDS + 9])
def test_what_a_queue_brought_from_another_shard_is_not_published_again(scene: Scene, to: int) -> None:
    begun = scene.now
    scene.open(SHARDS + 1, declared(7, shard=0))
    scene.write(SHARDS + 1, ready=5, published=5)
    scene.depths()
    scene.now += 1
    if to != SHARDS + 1:
        scene.gauges.queue_close(SHARDS + 1)
    scene.open(to, declared(7, shard=1), begun)
    scene.write(to, ready=6, published=7)
    rows = scene.depths()
    assert [(row["shard"], row["n_published"], row["ready"], row["interval_ms"]) for row in rows] == [(1, 2, 6, 1000)]
    shards = [row for table, row in scene.sample() if table is SHARD]
    assert [(row["queues"], row["ready"]) for row in shards] == [(0, 0), (1, 6)]


@pytest.mark.parametrize("to", [SHARDS, SHARDS + 9])
def test_a_queue_that_was_elsewhere_between_two_looks_is_counted_once(scene: Scene, to: int) -> None:
    begun = scene.now
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, ready=5, published=5)
    scene.depths()
    scene.gauges.queue_close(SHARDS)
    scene.open(to, declared(7), begun)
    scene.write(to, ready=6, published=7)
    assert [(row["shard"], row["n_published"], row["ready"]) for row in scene.depths()] == [(0, 2, 6)]


@pytest.mark.parametrize(("left", "new"), [(2, 5), (5, 2)])
def test_what_a_dead_shard_has_left_of_a_queue_is_not_its_last_row(scene: Scene, left: int, new: int) -> None:
    """It died after the queue had moved, and the new home lost it: it is there twice until the dead one is back."""
    scene.open(left, declared(7))
    scene.write(left, ready=6, published=6)
    scene.now += SECOND // 2
    scene.open(new, declared(7, shard=1))
    scene.write(new)
    assert scene.depths(0.5)[-1]["ready"] == 0
    scene.write(new, ready=4, published=4)
    (row,) = scene.depths()
    assert (row["n_published"], row["ready"]) == (4, 4)


def test_a_later_recorder_counts_from_where_it_is(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    scene.write(SHARDS, published=5)
    scene.now += 10 * SECOND
    scene.recorder = Recorder(scene.gauges, scene.topology, scene.put, 1000, scene.now)
    scene.open(SHARDS + 1, declared(8))
    scene.write(SHARDS + 1, published=3)
    assert sorted((row["queue"], row["n_published"], row["interval_ms"]) for row in scene.depths()) == [
        ("q7", 0, 0),
        ("q8", 3, 1000),
    ]
    scene.write(SHARDS, published=6)
    assert [(row["queue"], row["n_published"], row["interval_ms"]) for row in scene.depths()] == [("q7", 1, 1000)]


def test_a_shard_is_told_with_its_queues(scene: Scene) -> None:
    scene.gauges.measures_write("shard", 1, 300, 900, 0, 640)
    scene.gauges.queue_write(1, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 800, 700)
    scene.open(SHARDS, declared(7, shard=1))
    scene.open(SHARDS + 1, declared(8, shard=1))
    scene.write(SHARDS, ready=5, published=5)
    scene.write(SHARDS + 1, ready=1, published=4, delivered=3)
    first, second = (row for table, row in scene.sample(2) if table is SHARD)
    assert (first["shard"], first["queues"], first["msgs_in"], first["saturated"]) == (0, 0, 0, False)
    assert second == {
        "ts": scene.now, "shard": 1, "pid": 101, "incarnation": 1, "cpu": 0.25, "rss": 5000, "loop_lag_p50_us": 300,
        "loop_lag_p99_us": 900, "msgs_in": 9, "msgs_out": 3, "bytes_in": 90, "bytes_out": 30, "interval_ms": 2000,
        "commit_us_p99": None, "store_used": 640, "store_limit": 500, "memory_used": 77, "memory_limit": 800,
        "queues": 2, "ready": 6, "unacked": 0, "saturated": True,
    }  # fmt: skip


def test_a_dead_shard_has_no_row_until_it_lives_again(scene: Scene) -> None:
    scene.open(SHARDS, declared(7))
    scene.sample()
    scene.write(SHARDS, published=5)
    assert [row["shard"] for table, row in scene.sample(dead=(0,)) if table is SHARD] == [1]
    found = [row for table, row in scene.sample() if table is SHARD and row["shard"] == 0]
    assert [(row["msgs_in"], row["interval_ms"]) for row in found] == [(5, 2000)]


class Counting(RuleBasedStateMachine):
    """Queues come, work, rest, go, on shards that die; every count is in some row, and no time is in two."""

    @initialize()
    def start(self) -> None:
        self.scene = Scene(Path(f"/dev/shm/test-recorder-machine-{os.getpid()}.gauges"))
        self.totals: dict[int, list[int]] = {}
        self.lasting: dict[int, int] = {}
        self.last_id = 0
        self.worked = [0, 0]

    def teardown(self) -> None:
        if hasattr(self, "scene"):
            self.scene.close()

    @rule(slot=st.integers(SHARDS, SHARDS + 3), shard=st.integers(0, 1))
    def open(self, slot: int, shard: int) -> None:
        if slot not in self.totals:
            self.last_id += 1
            self.scene.open(slot, declared(self.last_id, shard))
            self.totals[slot] = [self.last_id, shard, 0]
            self.lasting[self.last_id] = 0

    @rule(slot=st.integers(SHARDS, SHARDS + 3), count=st.integers(0, 9), ready=st.integers(0, 2))
    def work(self, slot: int, count: int, ready: int) -> None:
        if slot in self.totals:
            self.totals[slot][2] += count
            self.lasting[self.totals[slot][0]] += count
            self.worked[self.totals[slot][1]] += count
            self.scene.write(slot, ready=ready, published=self.totals[slot][2])

    @rule(slot=st.integers(SHARDS, SHARDS + 3))
    def delete(self, slot: int) -> None:
        if slot in self.totals:
            self.sample(1)
            id, *_ = self.totals.pop(slot)
            self.scene.gauges.queue_close(slot)
            self.scene.topology.apply(["queue_gone", "/", f"q{id}", id])

    @rule(slot=st.integers(SHARDS, SHARDS + 3))
    def begin_again(self, slot: int) -> None:
        """The queue's shard is restarted, and counts from 0."""
        if slot in self.totals:
            self.sample(1)
            id, shard, _ = self.totals[slot]
            self.totals[slot][2] = 0
            self.scene.open(slot, declared(id, shard))

    @rule(times=st.integers(1, 70))
    def sample(self, times: int) -> None:
        for _ in range(times):
            self.scene.sample()

    @rule()
    def sample_and_check(self) -> None:
        self.scene.sample()
        found = dict.fromkeys(self.lasting, 0)
        covered: dict[int, int] = {}
        sums = [0, 0]
        for table, row in self.scene.rows:
            if table is SHARD:
                sums[row["shard"]] += row["msgs_in"]
                continue
            id = int(row["queue"][1:])
            found[id] += row["n_published"]
            begun = row["ts"] - 1000 * row["interval_ms"]
            assert begun >= covered.get(id, BEGUN)
            covered[id] = row["ts"]
        assert found == self.lasting
        assert sums == self.worked

    @invariant()
    def no_more_than_there_is(self) -> None:
        if hasattr(self, "scene"):
            assert len(self.scene.recorder.known) <= 4


Counting.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestCounting = Counting.TestCase
