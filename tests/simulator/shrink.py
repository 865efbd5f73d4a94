"""Shrinks a plan that fails: the same failure with fewer clients, faults, operations and storms, in less time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.simulator.plan import Plan
from tests.simulator.play import Ending, play

MOST_PLAYS = 200


def shrink(ending: Ending, most: int = MOST_PLAYS) -> Ending:
    """Return the ending of the smallest plan found that fails in the same place, with its story."""
    plan, plays = ending.plan, 0
    smaller = True
    while smaller and plays < most:
        smaller = False
        for candidate in smaller_plans(plan):
            plays += 1
            found = play(candidate)
            if found.where == ending.where and found.failure is not None:
                plan, smaller = candidate, True
                break
            if plays == most:
                break
    return play(plan, narrated=True)


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one part less each, or less time."""
    if plan.seconds > 0.1:
        yield replace(plan, seconds=plan.seconds / 2)
    if plan.lull is not None:
        yield replace(plan, lull=None)
    for parts in ("faults", "storms", "operations", "clients"):
        whole = getattr(plan, parts)
        if len(whole) > 3:
            yield replace(plan, **{parts: whole[: len(whole) // 2]})
            yield replace(plan, **{parts: whole[len(whole) // 2 :]})
        for at in range(len(whole)):
            yield replace(plan, **{parts: whole[:at] + whole[at + 1 :]})
    if plan.seconds > 0.1:
        yield replace(plan, seconds=plan.seconds * 0.9)
