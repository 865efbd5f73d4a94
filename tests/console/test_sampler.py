"""Rates and sums of the sampler, against a naive model: whatever is written, deleted and made anew between samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from console.course import FINE_MINUTES
from console.sampler import AWAKE_SECONDS, COURSES, RECENT_SECONDS, Sampler
from penstock.memory.gauges import Gauges

SHARDS, QUEUES, SLOTS = 1, 70, 5
FINE = 60 * FINE_MINUTES
published = attrgetter("counters.published")


class Scene:
    """Gauges, and a sampler whose clock a test moves."""

    def __init__(self) -> None:
        self.path = Path(f"/dev/shm/test-sampler-{os.getpid()}.gauges")
        self.gauges = Gauges.create(self.path, epoch=1, acceptors=1, shards=SHARDS, queues=QUEUES, pid=os.getpid())
        self.now = 1000.0
        self.sampler = Sampler(self.gauges, lambda: self.now)

    def open(self, slot: int, id: int, since: int = 1) -> None:
        self.gauges.queue_open(slot, id, "/", f"q{id}", since)

    def write(self, slot: int, ready: int = 0, published: int = 0) -> None:
        self.gauges.queue_write(slot, ready, 1, ready, 1, published, published, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)

    def second(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.sampler.tick()

    def close(self) -> None:
        self.gauges.close()
        self.path.unlink()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


def test_a_rate_is_the_growth_of_the_last_second(scene: Scene) -> None:
    scene.open(SHARDS, 7)
    scene.sampler.wake()
    assert scene.sampler.rate(7, published) == 0
    for total in (10, 40):
        scene.write(SHARDS, published=total)
        scene.second()
    assert scene.sampler.rate(7, published) == 30
    scene.write(SHARDS, published=60)
    scene.second(2)
    assert scene.sampler.rate(7, published) == 10
    scene.now += RECENT_SECONDS + 1
    assert scene.sampler.rate(7, published) == 0


def test_a_quiet_time_is_no_part_of_a_rate(scene: Scene) -> None:
    scene.open(SHARDS, 7)
    scene.write(SHARDS, published=5)
    scene.sampler.wake()
    for _ in range(100):
        scene.second()
    scene.write(SHARDS, published=25)
    scene.second()
    assert scene.sampler.rate(7, published) == 20


def test_counters_that_begin_anew_have_no_rate_yet(scene: Scene) -> None:
    scene.open(SHARDS, 7)
    scene.write(SHARDS, published=50)
    scene.sampler.wake()
    scene.gauges.queue_close(SHARDS)
    scene.open(SHARDS, 7, since=2)
    scene.write(SHARDS, published=60)
    scene.second()
    assert scene.sampler.rate(7, published) == 0
    assert scene.sampler.node.fine[-1].counters.published == 60


def test_a_queue_that_moves_to_another_slot_goes_on(scene: Scene) -> None:
    scene.open(SHARDS, 7)
    scene.write(SHARDS, published=50)
    scene.sampler.wake()
    scene.open(SHARDS + 1, 7)
    scene.write(SHARDS + 1, ready=3, published=60)
    scene.gauges.queue_close(SHARDS)
    scene.second()
    assert scene.sampler.rate(7, published) == 10
    assert scene.sampler.node.fine[-1].ready == 3


def test_it_rests_when_nobody_asks(scene: Scene) -> None:
    for _ in range(130):
        scene.second()
    assert [sample.at for sample in scene.sampler.node.fine] == [1001.0, 1061.0, 1121.0]
    scene.sampler.wake()
    assert scene.sampler.is_awake and scene.sampler.node.fine[-1].at == 1130.0
    scene.sampler.wake()
    assert len(scene.sampler.node.fine) == 4
    for _ in range(int(AWAKE_SECONDS) + 30):
        scene.second()
    assert scene.sampler.node.fine[-1].at == 1130.0 + AWAKE_SECONDS - 1 and not scene.sampler.is_awake


def test_a_queue_that_was_busy_while_it_rested_has_the_rate_of_that_time(scene: Scene) -> None:
    scene.open(SHARDS, 7)
    scene.write(SHARDS, published=5)
    scene.second()
    scene.write(SHARDS, published=65)
    scene.now += 30
    scene.sampler.wake()
    assert scene.sampler.rate(7, published) == 2


def test_courses_begin_when_they_are_asked_for_and_are_bounded(scene: Scene) -> None:
    for id in range(COURSES + 2):
        scene.open(SHARDS + id, id + 1)
        scene.write(SHARDS + id, ready=id)
    scene.sampler.wake()
    assert [list(scene.sampler.course(id + 1).fine) for id in range(COURSES + 1)] == [[]] * (COURSES + 1)
    for _ in range(FINE + 5):
        scene.second()
        scene.sampler.wake()
    assert not scene.sampler.course(1).fine
    assert len(scene.sampler.course(COURSES + 1).fine) == FINE == len(scene.sampler.node.fine)
    assert {each.ready for each in scene.sampler.course(COURSES + 1).fine} == {COURSES}


class Sampled(RuleBasedStateMachine):
    """Writes, ends and new queues in any order between samples; a model reads everything each time."""

    @initialize()
    def begin(self) -> None:
        self.scene = Scene()
        self.ids: dict[int, int] = {}
        self.totals: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.written: set[int] = set()
        self.rates: dict[int, tuple[int, float]] = {}
        self.last = 0
        self.scene.sampler.wake()

    @rule(slot=st.integers(1, SLOTS))
    def open(self, slot: int) -> None:
        if slot not in self.ids:
            self.last += 1
            self.ids[slot] = self.last
            self.scene.open(slot, self.last, since=self.last)
            self.written.add(self.last)
            self.totals[slot] = 0

    @rule(slot=st.integers(1, SLOTS), ready=st.integers(0, 9), more=st.integers(0, 9))
    def write(self, slot: int, ready: int, more: int) -> None:
        if slot in self.ids:
            self.totals[slot] += more
            self.written.add(self.ids[slot])
            self.scene.write(slot, ready, self.totals[slot])

    @rule(slot=st.integers(1, SLOTS))
    def close(self, slot: int) -> None:
        if slot in self.ids:
            self.scene.gauges.queue_close(slot)
            del self.ids[slot]

    @rule(source=st.integers(1, SLOTS), goal=st.integers(1, SLOTS))
    def move(self, source: int, goal: int) -> None:
        if source in self.ids and goal not in self.ids:
            id = self.ids.pop(source)
            self.totals[goal] = self.totals[source]
            self.scene.open(goal, id, since=id)
            self.scene.write(goal, 0, self.totals[goal])
            self.scene.gauges.queue_close(source)
            self.ids[goal] = id
            self.written.add(id)

    @rule()
    def sample(self) -> None:
        self.scene.second()
        gauges = [self.scene.gauges.queue_read(slot) for slot in self.ids]
        known = {gauge.queue_id: gauge for gauge in gauges if gauge is not None}
        for id, gauge in known.items():
            grown = published(gauge) - self.seen.get(id, 0)
            if id in self.written:
                self.rates[id] = grown, self.scene.now
            rate, at = self.rates.get(id, (0, self.scene.now))
            assert self.scene.sampler.rate(id, published) == (rate if self.scene.now - at <= RECENT_SECONDS else 0)
        self.written.clear()
        self.seen = {id: published(gauge) for id, gauge in known.items()}
        newest = self.scene.sampler.node.fine[-1]
        assert newest.ready == sum(gauge.ready for gauge in known.values())
        assert newest.unacked == sum(gauge.unacked for gauge in known.values())

    @invariant()
    def no_more_is_kept_than_there_are(self) -> None:
        if hasattr(self, "scene"):
            assert len(self.scene.sampler._pairs) <= SLOTS

    def teardown(self) -> None:
        if hasattr(self, "scene"):
            self.scene.close()


Sampled.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSampled = Sampled.TestCase
