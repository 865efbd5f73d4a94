"""Storms, in which everything is slow, and the lull, in which no client does anything of its own accord."""

from __future__ import annotations

from tests.simulator.plan import Plan
from tests.simulator.timeline import Timeline

BEGINS = 100.0
"""The time at which a play begins, in seconds."""
UNTIL_QUIET_SECONDS, QUIET_SECONDS, AFTER_QUIET_SECONDS = 8.0, 60.0, 2.0
"""How long a lull lasts before all is quiet, how much longer periodic work waits then, and how long before the end of
the lull it is done as usual again.
"""


class Weather:
    """The weather of a plan. Once it is `calm`, nothing is slow any more, and no lull goes on."""

    def __init__(self, plan: Plan, timeline: Timeline) -> None:
        self.plan = plan
        self.timeline = timeline
        self.calm = False

    def lull_ends(self) -> float:
        """Return when the present lull ends; a time in the past if there is none."""
        lull = self.plan.lull
        if lull is None or self.calm or self.timeline.now < BEGINS + lull.begins:
            return 0.0
        return BEGINS + lull.begins + lull.seconds

    def is_quiet(self) -> bool:
        """Whether the present lull has lasted for a while, and goes on for another."""
        lull = self.plan.lull
        begins = BEGINS + (lull.begins if lull else 0.0) + UNTIL_QUIET_SECONDS
        return self.lull_ends() - AFTER_QUIET_SECONDS > self.timeline.now > begins

    def regularly(self, seconds: float) -> float:
        """Return the time of the next round of periodic work, which is rare while all is quiet."""
        soon = self.timeline.now + seconds
        return min(soon + QUIET_SECONDS, self.lull_ends() - AFTER_QUIET_SECONDS) if self.is_quiet() else soon

    def slowness(self) -> float:
        """Return how many times longer than usual everything takes now."""
        if self.calm:
            return 1.0
        at = self.timeline.now - BEGINS
        return max((storm.slower for storm in self.plan.storms if storm.begins <= at < storm.ends), default=1.0)
