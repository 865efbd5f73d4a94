"""Chooses the queues to move: from shards with too much to shards with room, as few as possible.

Greedy, one goal after the other, until no goal has a useful move: the shard with the largest excess gives up the queue
that removes most of the excess, to the shard with the most room. This is repeated with several limits on the size of
the queues moved, the smallest first, and the best outcome counts: goals reached, then not too many moves, then the
least to copy.

All sums are of whole numbers, so the same rows give the same moves; a placement for which no further move is found has
none the next time either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ops.rebalance.balance import Balance
from ops.rebalance.goals import Goal, GoalName

FAIR_PART = 8
"""Queues that remove at least this fraction (1/N) of their shard's excess are moved before smaller ones."""
LEAST_PART = 200
"""A move that removes less than this fraction (1/N) of the excess is not worth making."""
CEILINGS = (0, 100, 1000, 10_000, 100_000)
"""Limits on the size of the queues to move, in messages (`Item.copied`)."""
FEW_MOVES = 20
"""Up to this many moves the plan that copies least is the best, beyond it the one with fewer moves."""


@dataclass(frozen=True, slots=True)
class Step:
    """A move of an item. `goal` is its purpose: a soft goal, or None for emptying a shard."""

    number: int
    source: int
    target: int
    goal: GoalName | None


def best_steps(make: Callable[[], Balance], goals: Sequence[Goal]) -> list[Step]:
    """Return the steps of the best plan found; `make` returns the placement at its beginning."""
    found: list[tuple[tuple[object, ...], list[Step]]] = []
    for ceiling in (*CEILINGS, None):
        balance = make()
        steps = _planned(balance, goals, ceiling)
        if len(steps) <= FEW_MOVES and ceiling is not None and not any(_over(balance, goals)):
            return join_moves(make(), steps, goals)  # higher ceilings would copy more
        steps += _planned(balance, goals, None, len(steps))
        copied = sum(balance.items[step.number].copied for step in steps)
        found.append(((_over(balance, goals), max(len(steps) - FEW_MOVES, 0), copied, len(steps)), steps))
    return join_moves(make(), min(found, key=lambda each: each[0])[1], goals)


def _over(balance: Balance, goals: Sequence[Goal]) -> tuple[int, ...]:
    """Return the number of queues still on shards to be emptied, and the total excess over each goal's limit."""
    left = sum(len(balance.members[index]) for index in balance.rules.leaving & balance.shards.keys())
    lines = {goal.name: balance.line(goal, goal.limit) for goal in goals}
    over = (
        sum(max(balance.sums[goal.name][index] - lines[goal.name], 0) for index in balance.staying) for goal in goals
    )
    return left, *over


def _planned(balance: Balance, goals: Sequence[Goal], ceiling: int | None, taken: int = 0) -> list[Step]:
    """Take steps on `balance` and return them; at most `rules.moves_max`, including the `taken` ones."""
    steps: list[Step] = []
    room = balance.rules.moves_max - taken
    _empty_leaving(balance, steps, room, ceiling)
    while len(steps) < room:
        before = len(steps)
        for place, goal in enumerate(goals):
            _relieve(balance, goal, goals[:place], steps, room, ceiling)
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
    if len(shorter) < len(steps) and _holds(balance, shorter, goals):
        steps = shorter
    for step in steps:
        balance.move(step.number, step.target)
    return list(steps)


def _holds(balance: Balance, steps: Sequence[Step], goals: Sequence[Goal]) -> bool:
    """Whether no step breaks a hard goal or hurts a goal before its own; the balance is left as it was."""
    taken: list[Step] = []
    for step in steps:
        hurts = any(balance.hurts(goal, step.number, step.target) for goal in _before(goals, step.goal))
        if hurts or balance.obstacle(step.number, step.target):
            break
        balance.move(step.number, step.target)
        taken.append(step)
    for step in reversed(taken):
        balance.move(step.number, step.source)
    return len(taken) == len(steps)


def _before(goals: Sequence[Goal], name: GoalName | None) -> Sequence[Goal]:
    names = [goal.name for goal in goals]
    return goals[: names.index(name)] if name in names else ()


def _empty_leaving(balance: Balance, steps: list[Step], room: int, ceiling: int | None) -> None:
    """Move every queue off the shards to be emptied, the largest first, to the shard with the least load; between equal
    loads, to the one with the fewest queues.
    """
    for source in sorted(balance.rules.leaving & balance.shards.keys()):
        for number in sorted(
            balance.members[source], key=lambda number: (-balance.items[number].weights["load"], number)
        ):
            targets = [target for target in balance.staying if not balance.obstacle(number, target)]
            fits = ceiling is None or balance.items[number].copied <= ceiling
            if fits and targets and len(steps) < room:
                target = min(
                    targets, key=lambda index: (balance.sums["load"][index], len(balance.members[index]), index)
                )
                _apply_step(balance, steps, Step(number, source, target, None))


def _relieve(
    balance: Balance, goal: Goal, earlier: Sequence[Goal], steps: list[Step], room: int, ceiling: int | None
) -> None:
    sums = balance.sums[goal.name]
    line = balance.line(goal, goal.limit)
    while len(steps) < room:
        over = sorted(
            (index for index in balance.staying if sums[index] > line), key=lambda index: (-sums[index], index)
        )
        step = next((step for source in over if (step := _best(balance, goal, earlier, source, ceiling))), None)
        if step is None:
            return
        _apply_step(balance, steps, step)
        line = balance.line(goal, goal.aim)


def _best(balance: Balance, goal: Goal, earlier: Sequence[Goal], source: int, ceiling: int | None) -> Step | None:
    """Return the move that removes most of a shard's excess; queues with few messages come before others."""
    sums, line = balance.sums[goal.name], balance.line(goal, goal.aim)
    excess = sums[source] - line
    targets = sorted((index for index in balance.staying if index != source), key=lambda index: (sums[index], index))
    best: tuple[int, ...] | None = None
    found: Step | None = None
    for number in balance.members[source]:
        item = balance.items[number]
        weight = item.weights[goal.name]
        if item.fixed or weight * LEAST_PART < excess or (ceiling is not None and item.copied > ceiling):
            continue
        for target in targets:
            lifted = sums[target] + weight
            taken = min(weight, excess) - max(lifted - line, 0) + max(sums[target] - line, 0)
            if taken * LEAST_PART < excess or taken <= 0:
                break  # the next targets have less room
            if balance.obstacle(number, target) or any(balance.hurts(goal, number, target) for goal in earlier):
                continue
            crumb = taken * FAIR_PART < excess
            rank = crumb, len(str(item.copied)) if item.copied else 0, -taken, item.copied, number
            if best is None or rank < best:
                best, found = rank, Step(number, source, target, goal.name)
            break
    return found


def _apply_step(balance: Balance, steps: list[Step], step: Step) -> None:
    balance.move(step.number, step.target)
    steps.append(step)
