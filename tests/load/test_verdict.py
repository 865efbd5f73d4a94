from __future__ import annotations

from dataclasses import replace

import pytest

from load.counters import Stop, Tally
from load.options import LoadOptions
from load.probe import Depth
from load.verdict import Observed, fairness, held_without_need, judge

PLAIN = LoadOptions(
    queue="q", size=256, batch=100, publish_rate=0.0, confirm="yes", consumers=1, consumer_rate=0.0, prefetch=200,
    stop_count=0, resume_count=0, messages=0, verify="yes", drain_seconds=30.0, max_depth=0, max_resume_seconds=0.0,
    max_end_to_end_ms=0.0, min_fairness=0.0,
)  # fmt: skip


def good_run() -> Observed:
    tally = Tally()
    for producer in (1, 2):
        tally.published[producer] = 5
        tally.note_confirmed(producer, 0, 5)
        for sequence in range(5):
            tally.note_received(producer, sequence, redelivered=False)
    tally.sums["received"] = 10
    return Observed(tally, [Depth(0.0, 100), Depth(1.0, 50)], failures=0, end_to_end_p99_ms=20.0)


def failed(options: LoadOptions, observed: Observed) -> list[str]:
    return [finding.what for finding in judge(options, observed) if not finding.good]


LIMITS = replace(
    PLAIN,
    stop_count=100,
    resume_count=50,
    max_depth=100,
    max_resume_seconds=1.0,
    max_end_to_end_ms=20.0,
    min_fairness=1.0,
)


def test_a_good_run_passes_every_check() -> None:
    assert failed(LIMITS, good_run()) == []


@pytest.mark.parametrize(
    ("limit", "what"),
    [({"max_depth": 99}, "deepest queue"), ({"max_end_to_end_ms": 19.0}, "end to end p99")],
)
def test_a_limit_that_is_passed_fails_by_its_name(limit: dict[str, float], what: str) -> None:
    assert failed(replace(LIMITS, **limit), good_run()) == [what]


def test_losses_doubles_and_order_fail() -> None:
    run = good_run()
    run.tally.note_confirmed(1, 5, 6)
    run.tally.note_received(2, 0, redelivered=False)
    run.tally.sums["reordered"] = 1
    assert failed(LIMITS, run) == ["lost", "duplicated", "out of order"]
    assert failed(replace(LIMITS, verify="no"), run) == []


def test_failures_and_unfair_shares_fail() -> None:
    run = good_run()
    run.tally.published[1] = 500
    assert failed(LIMITS, replace(run, failures=1)) == ["failures", "fairness"]


def test_a_run_in_which_nothing_arrived_fails() -> None:
    assert failed(PLAIN, Observed(Tally(), [], 0, 0.0)) == ["messages received"]
    assert failed(replace(PLAIN, consumers=0), Observed(Tally(), [], 0, 0.0)) == []


def test_a_publisher_held_while_there_was_room_fails() -> None:
    run = good_run()
    run.tally.note_stop(Stop(0.5, 2.5, "FLOW"))
    assert failed(LIMITS, run) == ["stopped with room again"]


@pytest.mark.parametrize(
    ("depths", "seconds"),
    [
        ([], 0.0),
        ([Depth(5.0, 80)], 0.0),
        ([Depth(5.0, 80), Depth(9.0, 50)], 1.0),
        ([Depth(5.0, 10), Depth(9.0, 51)], 0.0),
        ([Depth(0.5, 10), Depth(2.0, 50), Depth(6.0, 10), Depth(11.0, 99)], 8.0),
    ],
)
def test_time_held_without_need(depths: list[Depth], seconds: float) -> None:
    """Counted back from the resume to the first observation at or below the resume mark."""
    assert held_without_need(Stop(1.0, 10.0, "FLOW"), depths, resume_count=50) == seconds


def test_fairness_is_jains_index() -> None:
    assert fairness([7, 7, 7]) == 1.0
    assert fairness([9, 0, 0]) == pytest.approx(1 / 3)
    assert fairness([]) == 1.0
