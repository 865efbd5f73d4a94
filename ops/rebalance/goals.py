"""What a placement is measured by.

Soft goals say what is to be even among the shards, in their order: a later one never hurts an earlier one. Hard goals
are not to be broken by any single step, however much better it would be afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GoalName = Literal["load", "held", "bytes", "queues"]

PERCENT = 100
RATE_UNIT = 1000
"""Rates are counted in thousandths of a message a second, shares of time in millionths: whole numbers, for sums that
do not depend on their order."""
SHARE_UNIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing that is to be even: the largest sum of a shard is at most so many percent of the mean.

    Above `limit` percent something is done about it, until it is at most `aim` percent: whoever stops at the limit is
    over it again tomorrow. A shard that has no more than `floor` is never relieved.
    """

    name: GoalName
    limit: int
    aim: int
    floor: int


def soft_goals(low_rate: float) -> tuple[Goal, ...]:
    """In their order. `low_rate` is what a shard may have to do before it is worth a move, in messages a second."""
    return (
        Goal("load", limit=110, aim=105, floor=round(low_rate * RATE_UNIT)),
        Goal("held", limit=150, aim=125, floor=SHARE_UNIT // 2),
        Goal("bytes", limit=150, aim=125, floor=1024 * 1024),
        Goal("queues", limit=200, aim=150, floor=100),
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan has to keep to. Percentages are of a shard's limits; patterns are shell patterns of VHOST/QUEUE."""

    low_rate: float = 1000.0
    cpu_percent: int = 80
    memory_percent: int = 80
    store_percent: int = 80
    queues_max: int | None = None
    min_coverage: float = 0.8
    moves_max: int = 100
    pins: tuple[str, ...] = ()
    excluded: frozenset[int] = field(default_factory=frozenset)
    leaving: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Shard:
    """What a shard has and may have. None is what nobody knows, and nothing is held against it.

    `cpu` is the use of a core, 1.0 being all of it; memory and store in octets.
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
    """A queue where it lives now, as the router has it; `immovable` is why it can live nowhere else, or ""."""

    vhost: str
    queue: str
    queue_id: int
    shard: int
    immovable: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.vhost, self.queue
