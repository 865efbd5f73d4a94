"""The lease on applying a plan of moves: there is one or none. Times are seconds since 1970 by the node's clock
(`penstock.node.clock`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.node.logs import get_logger

log = get_logger()


@dataclass(slots=True)
class Lease:
    """The holder's right to apply a plan. Operators may change `limits` and set `abort`; the holder sets `progress`."""

    plan: str
    holder: str
    since: float
    until: float
    limits: dict[str, float]
    progress: dict[str, Any]
    abort: bool = False


@dataclass(slots=True)
class Rebalancing:
    """The lease, if one is held."""

    lease: Lease | None = field(default=None)

    def current_lease(self, now: float) -> Lease | None:
        """Return the lease; None if there is none or it has expired."""
        if self.lease is not None and self.lease.until <= now:
            log.warning("rebalancing: the lease has expired", plan=self.lease.plan, holder=self.lease.holder)
            self.lease = None
        return self.lease
