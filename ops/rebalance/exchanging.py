"""Improves a plan: moves that are not needed are left out, and queues are exchanged for others that are less to copy.

Local search from the placement that the plan leads to. A change counts if no shard is further over the aim of any goal
than before, and no hard goal is broken. Each change makes the plan shorter, or less to copy, so the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ops.rebalance.balance import Balance
from ops.rebalance.goals import Goal
from ops.rebalance.steps import Step, holds


def improve(balance: Balance, steps: Sequence[Step], goals: Sequence[Goal]) -> list[Step]:
    """Return a plan at least as good as that of some steps, which move each queue once. `balance` is in the state
    before the steps, and is left in the state after the plan.
    """
    kept = list(steps)
    if len({step.number for step in kept}) == len(kept):
        tried = _Search(balance, kept, goals).run()
        _take(balance, tried, back=True)
        if holds(balance, tried, goals):
            kept = tried
    _take(balance, kept)
    return kept


def _take(balance: Balance, steps: Sequence[Step], back: bool = False) -> None:
    for step in steps:
        balance.move(step.number, step.source if back else step.target)


class _Search:
    """The search from the state after the steps."""

    def __init__(self, balance: Balance, steps: Sequence[Step], goals: Sequence[Goal]) -> None:
        _take(balance, steps)
        self.balance = balance
        self.steps = {step.number: step for step in steps}
        self.lines = {goal.name: balance.line(goal, goal.aim) for goal in goals}

    def run(self) -> list[Step]:
        """Return the improved steps; the balance is in the state after them."""
        while self.improves():
            pass
        return list(self.steps.values())

    def improves(self) -> bool:
        """Leave moves out, and exchange queues, those first that are the most to copy; whether any was."""
        improved = False
        for step in sorted(self.steps.values(), key=lambda step: (-self.copied(step.number), step.number)):
            if step.goal is not None and (self.leaves_out(step) or self.exchanges(step)):
                improved = True
        return improved

    def copied(self, number: int) -> int:
        return self.balance.items[number].copied

    def leaves_out(self, step: Step) -> bool:
        """Leave a move out, if the goals are as near without it."""
        if not self.fits(step.number, step.target, step.source):
            return False
        self.balance.move(step.number, step.source)
        del self.steps[step.number]
        return True

    def exchanges(self, step: Step) -> bool:
        """Move another queue of the same shard in place of one, if it is less to copy."""
        if not self.copied(step.number):
            return False
        self.balance.move(step.number, step.source)
        for number, target in self.others(step):
            if not self.balance.obstacle(number, target):
                self.balance.move(number, target)
                del self.steps[step.number]
                self.steps[number] = replace(step, number=number, target=target)
                return True
        self.balance.move(step.number, step.target)
        return False

    def others(self, step: Step) -> Iterator[tuple[int, int]]:
        """Yield queues that may take the place of one that has just been moved back, each with a shard that has room
        for it; those that are the least to copy first.
        """
        balance, most = self.balance, self.copied(step.number)
        fitting = (
            number
            for number in balance.members[step.source]
            if number not in self.steps
            and not balance.items[number].fixed
            and self.copied(number) < most
            and self.is_enough(number, step)
        )
        for number in sorted(fitting, key=lambda number: (self.copied(number), number)):
            for target in sorted(balance.staying, key=lambda index: (index != step.target, index)):
                if target != step.source and self.has_room(number, target, step):
                    yield number, target

    def is_enough(self, number: int, step: Step) -> bool:
        """Whether a queue relieves the shard as far as another one did, or to the lines."""
        sums, items = self.balance.sums, self.balance.items
        return all(
            sums[goal][step.source] - items[number].weights[goal]
            <= max(line, sums[goal][step.source] - items[step.number].weights[goal])
            for goal, line in self.lines.items()
        )

    def has_room(self, number: int, target: int, step: Step) -> bool:
        """Whether a queue lifts a shard no further over the lines than the other one did, if that was there."""
        sums, items = self.balance.sums, self.balance.items
        there = items[step.number].weights if target == step.target else {}
        return all(
            sums[goal][target] + items[number].weights[goal] <= max(line, sums[goal][target] + there.get(goal, 0))
            for goal, line in self.lines.items()
        )

    def fits(self, number: int, source: int, target: int) -> bool:
        """Whether a queue may move between shards without lifting the second over the lines."""
        sums, weights = self.balance.sums, self.balance.items[number].weights
        room = all(sums[goal][target] + weights[goal] <= line or not weights[goal] for goal, line in self.lines.items())
        return room and not self.balance.obstacle(number, target)
