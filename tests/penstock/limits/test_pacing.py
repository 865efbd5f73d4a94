"""The controller of a paced queue against a model of one: stable at any drain rate, and quick to follow it."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.limits.pacing import FIRST_TARGET, Pacing

pytestmark = pytest.mark.long


class Queue:
    """A queue with producers that always have more, and consumers that take `rate` messages a second, acked by `batch`.

    Producers fill the queue to its target at each check.
    """

    def __init__(self, pacing: Pacing, rate: float, batch: int = 1, prefetch: int = 1) -> None:
        self.pacing = pacing
        self.rate = rate
        self.batch = batch
        self.prefetch = max(prefetch, batch)
        self.now = 1000.0
        self.depth = 0
        self.drained = 0
        self.served = 0.0
        self.depths: list[int] = []

    def run(self, seconds: float, check: float) -> None:
        self.depths.clear()
        for _ in range(round(seconds / check)):
            self.now += check
            in_hand = min(self.depth, self.prefetch)
            self.served = min(self.served + self.rate * check, float(self.depth if self.batch == 1 else in_hand))
            done = int(self.served) // self.batch * self.batch
            self.served -= done
            self.drained += done
            self.depth -= done
            self.depths.append(self.depth)
            self.pacing.observe(self.now, self.drained, max(self.depth - self.prefetch, 0))
            self.depth = max(self.depth, self.pacing.target)


def drained(queue: Queue, seconds: float, check: float) -> float:
    """Return how many messages leave the queue per second."""
    before = queue.drained
    queue.run(seconds, check)
    return (queue.drained - before) / seconds


@settings(max_examples=60, deadline=None)
@given(exponent=st.floats(0, 5), wait=st.floats(0.1, 5.0), check=st.floats(0.001, 0.02))
def test_a_waiting_time_is_kept_for_any_drain_rate(exponent: float, wait: float, check: float) -> None:
    rate = 10.0**exponent
    queue = Queue(Pacing(None, wait), rate)
    queue.run(max(15.0, 40 / rate), check)
    at_once = max(int(rate * wait), 1)  # producers notice at the next check
    assert drained(queue, max(5.0, 20 / rate), check) >= 0.9 * at_once / (at_once / rate + check)
    assert queue.pacing.target <= 1.3 * max(rate * wait, 1) + 2


@settings(max_examples=30, deadline=None)
@given(exponent=st.floats(0, 5), depth=st.integers(1, 100_000), check=st.floats(0.001, 0.02))
def test_a_depth_is_never_exceeded(exponent: float, depth: int, check: float) -> None:
    queue = Queue(Pacing(depth, None), 10.0**exponent)
    queue.run(5, check)
    assert max(queue.depths) <= depth == queue.pacing.target
    both = Queue(Pacing(depth, 0.5), 10.0**exponent)
    both.run(5, check)
    assert both.pacing.target <= depth


@pytest.mark.parametrize("factor", [0.01, 0.1, 10, 100])
def test_it_follows_a_drain_rate_that_changes(factor: float) -> None:
    queue = Queue(Pacing(None, 0.5), 1000.0)
    queue.run(10, 0.01)
    queue.rate *= factor
    queue.run(10 + 600 / queue.rate, 0.01)
    assert queue.pacing.target == pytest.approx(500 * factor, rel=0.35, abs=3)
    assert fmean(queue.depths[-200:]) <= 1.1 * queue.pacing.target + 1


@pytest.mark.parametrize("batch", [100, 1000])
def test_consumers_that_acknowledge_in_batches_are_not_locked_out(batch: int) -> None:
    """If the waiting time allows less than a batch, the target grows until the consumers go on."""
    queue = Queue(Pacing(None, 0.01), 1000.0, batch=batch)
    queue.run(60, 0.01)
    assert drained(queue, 30, 0.01) > 300


def test_before_anything_is_known() -> None:
    assert Pacing(None, 1.0).target == FIRST_TARGET
    assert Pacing(10, 1.0).target == 10
    assert Pacing(1, None).target == 1


def test_a_pause_is_not_measured() -> None:
    pacing = Pacing(None, 1.0)
    for tick in range(100):
        pacing.observe(tick * 0.05, tick * 5, 10)
    assert pacing.target == pytest.approx(100, abs=2)
    pacing.observe(1000.0, 500, 10)
    pacing.observe(1000.1, 510, 10)
    assert pacing.target == pytest.approx(100, abs=2)
