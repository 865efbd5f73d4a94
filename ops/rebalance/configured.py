"""The rules and limits of plans, from the settings."""

from __future__ import annotations

from dataclasses import asdict

from ops.rebalance.applying import Limits
from ops.rebalance.goals import GOALS, Rules
from penstock.settings.sections import RebalanceSettings
from penstock.settings.values import GoalName


def rules_of(
    settings: RebalanceSettings,
    low_rate: float | None = None,
    moves_max: int | None = None,
    min_coverage: int | None = None,
    pin: list[str] | None = None,
    exclude: list[int] | None = None,
    leave: list[int] | None = None,
    goals: tuple[GoalName, ...] = GOALS,
) -> Rules:
    """Return the rules of the settings, with those that are given in their place."""
    return Rules(
        low_rate=settings.low_rate if low_rate is None else low_rate,
        cpu_percent=settings.cpu_percent,
        memory_percent=settings.memory_percent,
        store_percent=settings.store_percent,
        min_coverage=(settings.coverage_percent if min_coverage is None else min_coverage) / 100,
        moves_max=settings.moves_max if moves_max is None else moves_max,
        pins=(*settings.pins, *(pin or ())),
        goals=goals,
        excluded=frozenset(exclude or ()),
        leaving=frozenset(leave or ()),
    )


def limits_of(settings: RebalanceSettings) -> Limits:
    """Return the limits of the settings."""
    others = {name: getattr(settings, name) for name in asdict(Limits()) if name != "moves"}
    return Limits(moves=settings.moves_at_once, **others)
