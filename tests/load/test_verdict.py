from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from load.counters import Stop, Tally
from load.options import Bounds, LoadOptions
from load.probe import Depth
from load.verdict import Observed, fairness, held_without_need, judge

PLAIN = LoadOptions(
    pattern="work-queue", scenario="constant", queue="q", size=256, batch=100, publish_rate=0.0, confirm="yes",
    burst=1000, pause_seconds=2.0, consumers=1, consumer_rate=0.0, slow_rate=100.0, subscribers=3, slow_subscribers=0,
    call_seconds=60.0, task_ms=2.0, prefetch=10,
    stop_count=0, resume_count=0, messages=0, verify="yes", drain_seconds=30.0, bounds=Bounds(),
)  # fmt: skip


def good_run() -> Observed:
    tally = Tally()
    for producer in (1, 2):
        tally.published[f"User{producer}"][producer] = 5
        tally.record_confirmed(producer, 0, 5)
        for sequence in range(5):
            tally.record_received(producer, sequence, redelivered=False)
    tally.sums["received"] = 10
    depths = [Depth(0.0, {"q": 100}), Depth(1.0, {"q": 40})]
    roles = {"User1": "publishers", "User2": "publishers"}
    return Observed(tally, depths, 0, end_to_end_p99_ms=20.0, seconds=2.0, roles=roles, unacked={"q": 10})


def failed(options: LoadOptions, observed: Observed) -> list[str]:
    return [finding.what for finding in judge(options, observed) if not finding.good]


BOUNDS = Bounds(max_depth=100, max_resume_seconds=1.0, max_end_to_end_ms=20.0, min_fairness=1.0, min_rate=5.0)
BOUNDED = replace(PLAIN, stop_count=100, resume_count=50, bounds=BOUNDS)


def test_a_good_run_passes_every_check() -> None:
    assert failed(BOUNDED, good_run()) == []


@pytest.mark.parametrize(
    ("bound", "what"),
    [
        ({"max_depth": 99}, "deepest queue"),
        ({"max_end_to_end_ms": 19.0}, "end to end p99"),
        ({"min_rate": 5.1}, "rate"),
    ],
)
def test_a_bound_that_is_passed_fails_by_its_name(bound: dict[str, Any], what: str) -> None:
    assert failed(replace(BOUNDED, bounds=replace(BOUNDS, **bound)), good_run()) == [what]


def test_losses_doubles_and_order_fail() -> None:
    run = good_run()
    run.tally.record_confirmed(1, 5, 6)
    run.tally.record_received(2, 0, redelivered=False)
    run.tally.sums["reordered"] = 1
    assert failed(BOUNDED, run) == ["lost", "duplicated", "out of order"]
    assert failed(replace(BOUNDED, verify="no"), run) == []


def test_failures_and_unfair_shares_fail() -> None:
    run = good_run()
    run.tally.published["User1"][1] = 500
    assert failed(BOUNDED, replace(run, failures=1)) == ["failures", "fairness"]


def test_only_those_that_do_the_same_are_compared() -> None:
    run = good_run()
    run.tally.published["User1"][1] = 500
    assert failed(BOUNDED, replace(run, roles={"User1": "publishers", "User2": "callers"})) == []


def test_a_run_in_which_nothing_arrived_fails() -> None:
    assert failed(PLAIN, Observed(Tally(), [], 0, 0.0, 2.0, {}, {})) == ["messages received"]
    assert failed(replace(PLAIN, consumers=0), Observed(Tally(), [], 0, 0.0, 2.0, {}, {})) == []


def test_a_publisher_held_while_there_was_room_fails() -> None:
    run = good_run()
    run.tally.record_stop(Stop(0.5, 2.5, "FLOW", "User1", ("q",)))
    assert failed(BOUNDED, run) == ["stopped with room again"]
    assert failed(BOUNDED, replace(run, unacked={"q": 11})) == []  # a mark of 50 may still be passed


@pytest.mark.parametrize(
    ("depths", "seconds"),
    [
        ([], 0.0),
        ([(5.0, 80)], 0.0),
        ([(5.0, 80), (9.0, 50)], 1.0),
        ([(5.0, 10), (9.0, 51)], 0.0),
        ([(0.5, 10), (2.0, 50), (6.0, 10), (11.0, 99)], 8.0),
    ],
)
def test_time_held_without_need(depths: list[tuple[float, int]], seconds: float) -> None:
    """Counted back from the resume to the first observation with room in its queue, whatever other queues hold."""
    seen = [Depth(at, {"q": ready, "other": 99}) for at, ready in depths]
    assert held_without_need(Stop(1.0, 10.0, "FLOW", "User", ("q",)), seen, {"q": 50, "other": 0}) == seconds


def test_a_stop_needs_room_in_all_its_queues() -> None:
    seen = [Depth(5.0, {"a": 0, "b": 0}), Depth(7.0, {"a": 0, "b": 9}), Depth(9.0, {"a": 0, "b": 0})]
    assert held_without_need(Stop(1.0, 10.0, "BLOCKED", "User", ("a", "b")), seen, {"a": 0, "b": 0}) == 1.0


def test_fairness_is_jains_index() -> None:
    assert fairness([7, 7, 7]) == 1.0
    assert fairness([9, 0, 0]) == pytest.approx(1 / 3)
    assert fairness([]) == 1.0
