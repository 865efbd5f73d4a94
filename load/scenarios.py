"""The number of users over a run, and whether the consumers are at work: pure functions of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

STEPS = 4
WAVES = 3
WAVE_MIN = 0.2
SPIKE_REST = 0.25


class Moment(NamedTuple):
    """Users as a share of their maximum, and whether the consumers are at work."""

    share: float
    consuming: bool = True


def constant(progress: float) -> Moment:
    """All users, all the time."""
    return Moment(1.0)


def ramp(progress: float) -> Moment:
    """From none to all in three quarters of the time, then all."""
    return Moment(min(progress / 0.75, 1.0))


def steps(progress: float) -> Moment:
    """A quarter more in each quarter."""
    return Moment((math.floor(progress * STEPS) + 1) / STEPS)


def spike(progress: float) -> Moment:
    """All in the third fifth, a quarter of them before and after."""
    return Moment(1.0 if 0.4 <= progress < 0.6 else SPIKE_REST)


def waves(progress: float) -> Moment:
    """Three waves between a fifth and all."""
    height = (1 - math.cos(2 * math.pi * WAVES * progress)) / 2
    return Moment(WAVE_MIN + (1 - WAVE_MIN) * height)


def outage(progress: float) -> Moment:
    """All, but without consumers from a quarter to half of the time: the case for flow control."""
    return Moment(1.0, consuming=not 0.25 <= progress < 0.5)


SCENARIOS: dict[str, Callable[[float], Moment]] = {
    each.__name__: each for each in (constant, ramp, steps, spike, waves, outage)
}
"""Scenarios by name; each takes the share of the run that is over, from 0 to below 1."""
