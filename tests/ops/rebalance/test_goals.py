"""The goals of a placement: their order, and that relieving a shard leaves room below the limit."""

from __future__ import annotations

from typing import get_args

import pytest

from ops.rebalance.goals import GOALS, PERCENT, Home, Rules, soft_goals
from penstock.settings.values import GoalName


def test_load_comes_first_and_each_amount_has_a_goal() -> None:
    names = tuple(goal.name for goal in soft_goals(1.0))
    assert names == ("load", "held", "bytes", "queues")
    assert names == GOALS == get_args(GoalName)


@pytest.mark.parametrize("goal", soft_goals(1.0), ids=lambda goal: goal.name)
def test_a_shard_is_relieved_to_less_than_the_limit_and_not_below_the_mean(goal: object) -> None:
    assert PERCENT < goal.aim < goal.limit  # type: ignore[attr-defined]


def test_the_floor_of_the_load_is_the_low_rate_in_the_units_of_the_sums() -> None:
    assert [soft_goals(rate)[0].floor for rate in (0.0, 2.5, 1000.0)] == [0, 2500, 1_000_000]


def test_rules_without_more_exclude_nothing_and_a_home_is_known_by_its_name() -> None:
    assert (Rules().excluded, Rules().leaving, Rules().pins, Rules().queues_max) == (frozenset(), frozenset(), (), None)
    assert Home("v", "q", 7, 1).key == Home("v", "q", 8, 2).key == ("v", "q")
