"""Rests and budgets of automatic rebalancing."""

from __future__ import annotations

from typing import Any

import pytest

from ops.balancer.rest import Budget, Rest, budget, excess, rest
from ops.rebalance.past import DAY, Past, PastMove, PastPlan
from penstock.settings.automatic import AutomaticSettings

NOW = 10 * DAY
OURS = PastPlan("p", NOW - 10, "automatic", ours=True, state="applied")


def settings(**given: Any) -> AutomaticSettings:
    return AutomaticSettings(**{"mode": "on", "rest_seconds": 100, "undo_rest_seconds": 1000, **given})


def moves(*sizes: int) -> Past:
    """Return the past with moves of these sizes, a second after each other, the last one a second ago."""
    return Past((), tuple(
        PastMove("p", number, NOW - len(sizes) + number, ("/", f"q{number}"), size, "automatic")
        for number, size in enumerate(sizes)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (OURS, Rest(NOW + 90, "plan p has ended")),
        (PastPlan("p", NOW - 10, "automatic", ours=True, state="aborted"),
         Rest(NOW + 990, "an operator has aborted plan p")),
        (PastPlan("q", NOW - 10, "operator", state="applied"), Rest(NOW + 90, "plan q has ended")),
        (PastPlan("q", NOW - 10, "operator", undoes="p", state="applied"),
         Rest(NOW + 990, "an operator has undone plan p")),
        (PastPlan("q", NOW - 10, "operator", undoes="another", state="applied"), Rest(NOW + 90, "plan q has ended")),
        (PastPlan("q", NOW - 10, "operator"), Rest(NOW + 90, "plan q has ended")),
        (PastPlan("q", NOW - 100, "operator", state="applied"), None),
        (PastPlan("q", NOW - 10, ours=True, expires=NOW + 5), None),
    ],
)  # fmt: skip
def test_it_rests_after_plans(plan: PastPlan, expected: Rest | None) -> None:
    earlier = PastPlan("p", NOW - 500, "automatic", ours=True, state="applied")
    past = Past((plan,) if plan.id == "p" else (earlier, plan))
    assert rest(past, settings(), NOW) == expected


def test_a_kept_plan_waits_for_an_operator_in_a_dry_run_only() -> None:
    kept = Past((PastPlan("q", NOW - 10, ours=True, expires=NOW + 5),))
    assert rest(kept, settings(mode="dry-run"), NOW) == Rest(NOW + 5, "plan q waits for an operator")
    assert rest(kept, settings(mode="dry-run"), NOW + 5) is None


def test_the_longest_rest_counts() -> None:
    undo = PastPlan("q", NOW - 5, "operator", undoes="p", state="applied")
    assert rest(Past((OURS, undo)), settings(), NOW) == Rest(NOW + 995, "an operator has undone plan p")


def test_a_day_that_is_used_up_is_a_rest_until_enough_moves_are_a_day_old() -> None:
    past = moves(10, 20, 30)
    assert rest(past, settings(moves_per_day=2), NOW) == Rest(NOW - 2 + DAY, "2 moves a day are made")
    assert budget(past, settings(moves_per_day=2), NOW).moves == 0
    assert rest(past, settings(moves_per_day=2), NOW - 2 + DAY) is None
    assert budget(past, settings(moves_per_day=2), NOW - 2 + DAY).moves == 1
    assert rest(past, settings(bytes_per_day=50), NOW) == Rest(NOW - 2 + DAY, "50 bytes a day are copied")
    assert budget(past, settings(bytes_per_day=50), NOW).nbytes == 0
    assert rest(past, settings(moves_per_day=4, bytes_per_day=61), NOW) is None


def test_a_plan_gets_what_is_left_of_the_day_up_to_the_limits_of_a_run() -> None:
    past = moves(10, 20)
    assert budget(past, settings(moves_per_day=5, moves_per_run=9, bytes_per_day=100), NOW) == Budget(3, 70)
    assert budget(past, settings(moves_per_run=2, bytes_per_run=7), NOW) == Budget(2, 7)
    assert budget(past, settings(bytes_per_run=0, bytes_per_day=0), NOW).nbytes is None


def test_a_move_beyond_a_limit() -> None:
    past = moves(10, 20)
    for given, number, nbytes, expected in (
        ({}, 2, 5, ""),
        ({"moves_per_run": 2}, 2, 5, "2 moves in a run are made"),
        ({"moves_per_run": 2}, 1, 5, ""),  # a further attempt
        ({"moves_per_day": 2}, 2, 5, "2 moves a day are made"),
        ({"bytes_per_run": 34}, 2, 5, "it would copy more than 34 bytes in a run"),
        ({"bytes_per_run": 35}, 2, 5, ""),
        ({"bytes_per_day": 34}, 2, 5, "it would copy more than 34 bytes a day"),
        ({"bytes_per_run": 0, "bytes_per_day": 0}, 2, 2**40, ""),
    ):
        assert excess(past, settings(**given), "p", number, nbytes, NOW) == expected, given
    assert excess(past, settings(moves_per_run=2), "q", 0, 5, NOW) == ""
