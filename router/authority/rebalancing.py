"""The lease of whoever applies a plan of moves: there is one, or none. Times are seconds since 1970 by the node's clock
(`penstock.node.clock`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.node.logs import get_logger

log = get_logger()


@dataclass(slots=True)
class Lease:
    plan: str
    holder: str
    since: float
    until: float
    limits: dict[str, float]
    progress: dict[str, Any]
    abort: bool = False


@dataclass(slots=True)
class Rebalancing:
    """The lease, if one was given."""

    lease: Lease | None = field(default=None)

    def held(self, now: float) -> Lease | None:
        if self.lease is not None and self.lease.until <= now:
            log.warning("rebalancing: the lease is over", plan=self.lease.plan, holder=self.lease.holder)
            self.lease = None
        return self.lease
