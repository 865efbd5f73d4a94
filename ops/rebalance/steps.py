"""The steps of a plan: which may be taken one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ops.rebalance.balance import Balance
from ops.rebalance.goals import Goal
from penstock.settings.values import GoalName


@dataclass(frozen=True, slots=True)
class Step:
    """A move of an item. `goal` is its purpose: a soft goal, or None for emptying a shard."""

    number: int
    source: int
    target: int
    goal: GoalName | None


def holds(balance: Balance, steps: Sequence[Step], goals: Sequence[Goal]) -> bool:
    """Whether no step breaks a hard goal or hurts a goal before its own; the balance is left as it was."""
    taken: list[Step] = []
    for step in steps:
        hurts = any(balance.hurts(goal, step.number, step.target) for goal in before(goals, step.goal))
        if hurts or balance.obstacle(step.number, step.target):
            break
        balance.move(step.number, step.target)
        taken.append(step)
    for step in reversed(taken):
        balance.move(step.number, step.source)
    return len(taken) == len(steps)


def before(goals: Sequence[Goal], name: GoalName | None) -> Sequence[Goal]:
    names = [goal.name for goal in goals]
    return goals[: names.index(name)] if name in names else ()
