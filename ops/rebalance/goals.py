"""The goals by which a placement is measured.

Soft goals are the amounts to be even among the shards, in order: a later goal never hurts an earlier one. No step may
break a hard goal, however much better the placement would be after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from penstock.settings.values import GoalName

PERCENT = 100
RATE_UNIT = 1000
"""Rates are counted in thousandths of a message a second, shares of time in millionths: whole numbers, for sums that
do not depend on their order."""
SHARE_UNIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Goal:
    """An amount to be even: the largest sum of a shard is to be at most a percentage of the mean.

    A shard above `limit` percent is relieved until it is at most at `aim` percent: at the limit it would soon exceed it
    again. A shard that has no more than `floor` is never relieved.
    """

    name: GoalName
    limit: int
    aim: int
    floor: int


GOALS: tuple[GoalName, ...] = ("load", "held", "bytes", "queues")


def soft_goals(low_rate: float, names: Collection[GoalName] = GOALS) -> tuple[Goal, ...]:
    """Return the goals of these names in order. `low_rate` is the load up to which a shard is never relieved, in
    messages a second.
    """
    goals = (
        Goal("load", limit=110, aim=105, floor=round(low_rate * RATE_UNIT)),
        Goal("held", limit=150, aim=125, floor=SHARE_UNIT // 2),
        Goal("bytes", limit=150, aim=125, floor=1024 * 1024),
        Goal("queues", limit=200, aim=150, floor=100),
    )
    return tuple(goal for goal in goals if goal.name in names)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a plan. Percentages are of a shard's limits; `pins` are shell patterns of VHOST/QUEUE; `resting` are
    queues, by vhost and name, that were moved lately; `bytes_max` is what the moves may copy, None for any amount.
    """

    low_rate: float = 1000.0
    cpu_percent: int = 80
    memory_percent: int = 80
    store_percent: int = 80
    queues_max: int | None = None
    min_coverage: float = 0.8
    moves_max: int = 100
    bytes_max: int | None = None
    goals: tuple[GoalName, ...] = GOALS
    pins: tuple[str, ...] = ()
    resting: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    excluded: frozenset[int] = field(default_factory=frozenset)
    leaving: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Shard:
    """The use and the limits of a shard. None is unknown, and breaks no goal.

    `cpu` is the use of a core, 1.0 being all of it; memory and store are in bytes.
    """

    index: int
    alive: bool = True
    cpu: float | None = None
    memory: int | None = None
    memory_limit: int | None = None
    store: int | None = None
    store_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """A queue in its present place, as the router has it; `immovable` is the reason why it cannot move, or ""."""

    vhost: str
    queue: str
    queue_id: int
    shard: int
    immovable: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Vhost and name."""
        return self.vhost, self.queue
