"""The rests of automatic rebalancing, and how much it may move: derived from the past of the node's plans."""

from __future__ import annotations

from typing import NamedTuple

from ops.rebalance.past import DAY, Past, PastPlan
from penstock.settings.automatic import AutomaticSettings


class Rest(NamedTuple):
    """A time without a new plan, in seconds since 1970, and its reason."""

    until: float
    why: str


class Budget(NamedTuple):
    """The most that the moves of a plan may be: their number, and the bytes that they copy (None: any number)."""

    moves: int
    nbytes: int | None


def rest(past: Past, settings: AutomaticSettings, now: float) -> Rest | None:
    """Return the present rest; the longest of several. None if there is none."""
    ours = {plan.id for plan in past.plans if plan.ours}
    found = [each for plan in past.plans if (each := _rest_after(plan, ours, settings)) is not None]
    found += _of_day(past, settings, now)
    return max((each for each in found if each.until > now), default=None)


def budget(past: Past, settings: AutomaticSettings, now: float) -> Budget:
    """Return what a plan may move at present; no moves if the day's limits are used up."""
    made = past.own_moves(now - DAY)
    moves = max(min(settings.moves_per_run, settings.moves_per_day - len(made)), 0)
    limits = [settings.bytes_per_run] if settings.bytes_per_run else []
    if settings.bytes_per_day:
        limits.append(max(settings.bytes_per_day - sum(move.nbytes for move in made), 0))
    return Budget(moves, min(limits, default=None))


def excess(past: Past, settings: AutomaticSettings, plan: str, number: int, nbytes: int, now: float) -> str:
    """Describe the limit that a move of a plan, of that number and of so many bytes, would exceed; "" if none."""
    others = [move for move in past.moves if (move.plan, move.number) != (plan, number)]  # without earlier attempts
    run = [move for move in others if move.plan == plan]
    day = Past(moves=tuple(others)).own_moves(now - DAY)
    for moves, number_most, bytes_most, each in (
        (run, settings.moves_per_run, settings.bytes_per_run, "in a run"),
        (day, settings.moves_per_day, settings.bytes_per_day, "a day"),
    ):
        if len(moves) >= number_most:
            return f"{number_most} moves {each} are made"
        if bytes_most and sum(move.nbytes for move in moves) + nbytes > bytes_most:
            return f"it would copy more than {bytes_most} bytes {each}"
    return ""


def _rest_after(plan: PastPlan, ours: set[str], settings: AutomaticSettings) -> Rest | None:
    if plan.by is None:
        waits = plan.ours and settings.mode == "dry-run"
        return Rest(plan.expires, f"plan {plan.id} waits for an operator") if waits else None
    if plan.by == "operator" and plan.undoes in ours:
        return Rest(plan.last + settings.undo_rest_seconds, f"an operator has undone plan {plan.undoes}")
    if plan.by == "automatic" and plan.state == "aborted":
        return Rest(plan.last + settings.undo_rest_seconds, f"an operator has aborted plan {plan.id}")
    return Rest(plan.last + settings.rest_seconds, f"plan {plan.id} has ended")


def _of_day(past: Past, settings: AutomaticSettings, now: float) -> list[Rest]:
    """Return the rest that the day's limits ask for, if they are used up: until enough moves are a day old."""
    made = past.own_moves(now - DAY)
    found = []
    if len(made) >= settings.moves_per_day:
        at = made[-settings.moves_per_day].at
        found.append(Rest(at + DAY, f"{settings.moves_per_day} moves a day are made"))
    copied = 0
    for move in reversed(made):
        copied += move.nbytes
        if settings.bytes_per_day and copied >= settings.bytes_per_day:
            found.append(Rest(move.at + DAY, f"{settings.bytes_per_day} bytes a day are copied"))
            break
    return found
