"""Chooses the queues to move: from shards with too much to shards with room, as few as possible.

Greedy, one goal after the other, until no goal has a useful move: the shard with the largest excess gives up the queue
that removes most of the excess, to a shard with room for it. These are *plain* plans. Others prefer queues that are
less to copy, each with another limit on their size. Which of several equal queues and shards is taken may decide how
many moves are needed, so plans are made in several ways. Each is improved (ops/rebalance/exchanging.py). The best
outcome counts: goals reached, then the least time that clients are expected to wait in all.

All sums are of whole numbers, so the same rows give the same moves; a placement for which no further move is found has
none the next time either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ops.rebalance.balance import Balance, Item
from ops.rebalance.costs import work
from ops.rebalance.exchanging import improve
from ops.rebalance.goals import Goal
from ops.rebalance.steps import Step, holds

FAIR_PART = 8
"""Queues that remove at least this fraction (1/N) of their shard's excess are moved before smaller ones."""
LEAST_PART = 200
"""A move that removes less than this fraction (1/N) of the excess is not worth making."""
CEILINGS = (0, 100, 1000, 10_000, 100_000)
"""Limits on the size of the queues to move, in messages (`Item.copied`)."""


class _Shards(Enum):
    """Which shard of several with room for a queue gets it."""

    EMPTIEST = "that with the most room"
    FULLEST = "that with the least room, so that larger queues may fit later"
    FIRST = "that with the smallest number"


class _Ties(Enum):
    """Which queue of several that remove as much from the excess is moved."""

    LEAST = "the one with the least to copy"
    LIGHTEST = "that with the least load, or whatever else the goal is about"
    HEAVIEST = "that with the most"


class _Choice(NamedTuple):
    """How a queue is chosen, and its shard: of at most that size (`Item.copied`; None: of any), and whether by what it
    removes from the excess `plainly`, or by what it copies too.
    """

    ceiling: int | None = None
    shards: _Shards = _Shards.FULLEST
    plainly: bool = False
    ties: _Ties = _Ties.LEAST

    def admits(self, item: Item) -> bool:
        """Whether an item is not too large."""
        return self.ceiling is None or item.copied <= self.ceiling

    def order(self, shards: Sequence[int], sums: Mapping[int, int], most: int) -> Sequence[int]:
        """Return shards, given with the emptiest first, in the order in which they are tried: those that have more than
        `most` last in any case.
        """
        if self.shards is _Shards.EMPTIEST:
            return shards
        fitting = sum(sums[index] <= most for index in shards)
        first = reversed(shards[:fitting]) if self.shards is _Shards.FULLEST else sorted(shards[:fitting])
        return [*first, *shards[fitting:]]

    def rank(self, item: Item, weight: int, taken: int, excess: int) -> tuple[int, ...]:
        """Return the sort key of an item of that weight, which takes so much of an excess."""
        if self.plainly:
            return -taken, {_Ties.LEAST: item.copied, _Ties.LIGHTEST: weight, _Ties.HEAVIEST: -weight}[self.ties]
        crumb = taken * FAIR_PART < excess
        return crumb, len(str(item.copied)) if item.copied else 0, -taken, item.copied


CHOICES = (
    *(_Choice(None, shards, plainly=True, ties=ties) for shards in _Shards for ties in _Ties),
    *(_Choice(ceiling) for ceiling in CEILINGS),
)


def best_steps(make: Callable[[], Balance], goals: Sequence[Goal]) -> list[Step]:
    """Return the steps of the best plan found; `make` returns the placement at its beginning."""
    found = []
    for choice in CHOICES:
        balance = make()
        steps = _planned(balance, goals, choice)
        steps += _planned(balance, goals, choice._replace(ceiling=None), len(steps))
        found.append(_finished(make, steps, goals))
    return min(found, key=lambda each: each.rank).steps


class _Plan(NamedTuple):
    """A plan, and its rank: the excess over the limits after it, the work, the size of its copies, the number of
    its moves.
    """

    steps: list[Step]
    rank: tuple[tuple[int, ...], int, int, int]


def _finished(make: Callable[[], Balance], steps: Sequence[Step], goals: Sequence[Goal]) -> _Plan:
    """Return the plan of some steps: joined, and improved."""
    balance = make()
    steps = improve(balance, join_moves(make(), steps, goals), goals)
    rows = [balance.items[step.number].row for step in steps]
    effort = sum(work(row.backlog, row.backlog_bytes) for row in rows)
    copied = sum(balance.items[step.number].copied for step in steps)
    return _Plan(steps, (_over(balance, goals), effort, copied, len(steps)))


def _over(balance: Balance, goals: Sequence[Goal]) -> tuple[int, ...]:
    """Return the number of queues still on shards to be emptied, and the total excess over each goal's limit."""
    left = sum(len(balance.members[index]) for index in balance.rules.leaving & balance.shards.keys())
    lines = {goal.name: balance.line(goal, goal.limit) for goal in goals}
    over = (
        sum(max(balance.sums[goal.name][index] - lines[goal.name], 0) for index in balance.staying) for goal in goals
    )
    return left, *over


def _planned(balance: Balance, goals: Sequence[Goal], choice: _Choice, taken: int = 0) -> list[Step]:
    """Take steps on `balance` and return them; at most `rules.moves_max`, including the `taken` ones."""
    steps: list[Step] = []
    room = balance.rules.moves_max - taken
    _empty_leaving(balance, steps, room, choice)
    while len(steps) < room:
        before = len(steps)
        for place, goal in enumerate(goals):
            _relieve(balance, goal, goals[:place], steps, room, choice)
        if len(steps) == before:
            break
    return steps


def join_moves(balance: Balance, steps: Sequence[Step], goals: Sequence[Goal]) -> list[Step]:
    """Join several moves of one queue into one, if that breaks no hard goal and hurts no earlier goal.

    `balance` is in the state before the steps, and is left in the state after them.
    """
    last = {step.number: step for step in steps}
    first: dict[int, Step] = {}
    for step in steps:
        first.setdefault(step.number, step)
    shorter = [
        Step(step.number, step.source, last[step.number].target, step.goal)
        for step in first.values()
        if step.source != last[step.number].target
    ]
    if len(shorter) < len(steps) and holds(balance, shorter, goals):
        steps = shorter
    for step in steps:
        balance.move(step.number, step.target)
    return list(steps)


def _empty_leaving(balance: Balance, steps: list[Step], room: int, choice: _Choice) -> None:
    """Move every queue off the shards to be emptied, the largest first, to the shard with the least load; between equal
    loads, to the one with the fewest queues.
    """
    for source in sorted(balance.rules.leaving & balance.shards.keys()):
        for number in sorted(
            balance.members[source], key=lambda number: (-balance.items[number].weights["load"], number)
        ):
            targets = [target for target in balance.staying if not balance.obstacle(number, target)]
            if choice.admits(balance.items[number]) and targets and len(steps) < room:
                target = min(
                    targets, key=lambda index: (balance.sums["load"][index], len(balance.members[index]), index)
                )
                _apply_step(balance, steps, Step(number, source, target, None))


def _relieve(
    balance: Balance, goal: Goal, earlier: Sequence[Goal], steps: list[Step], room: int, choice: _Choice
) -> None:
    sums = balance.sums[goal.name]
    line = balance.line(goal, goal.limit)
    while len(steps) < room:
        over = sorted(
            (index for index in balance.staying if sums[index] > line), key=lambda index: (-sums[index], index)
        )
        step = next((step for source in over if (step := _best(balance, goal, earlier, source, choice))), None)
        if step is None:
            return
        _apply_step(balance, steps, step)
        line = balance.line(goal, goal.aim)


def _best(balance: Balance, goal: Goal, earlier: Sequence[Goal], source: int, choice: _Choice) -> Step | None:
    """Return the move that removes most of a shard's excess; queues with few messages come before others."""
    sums, line = balance.sums[goal.name], balance.line(goal, goal.aim)
    excess = sums[source] - line
    targets = sorted((index for index in balance.staying if index != source), key=lambda index: (sums[index], index))
    best: tuple[int, ...] | None = None
    found: Step | None = None
    for number in balance.members[source]:
        item = balance.items[number]
        weight = item.weights[goal.name]
        if item.fixed or weight * LEAST_PART < excess or not choice.admits(item):
            continue
        for target in choice.order(targets, sums, line - weight):
            lifted = sums[target] + weight
            taken = min(weight, excess) - max(lifted - line, 0) + max(sums[target] - line, 0)
            if taken * LEAST_PART < excess or taken <= 0:
                break  # the next shards have less room
            if balance.obstacle(number, target) or any(balance.hurts(goal, number, target) for goal in earlier):
                continue
            rank = *choice.rank(item, weight, taken, excess), number
            if best is None or rank < best:
                best, found = rank, Step(number, source, target, goal.name)
            break
    return found


def _apply_step(balance: Balance, steps: list[Step], step: Step) -> None:
    balance.move(step.number, step.target)
    steps.append(step)
