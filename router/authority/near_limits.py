"""The numbers of queues, exchanges and bindings of vhosts and users near their limits, in the node's shared counts.

Only a number near its limit has a row there: nearly every user has a limit of queues, and rows are few.
"""

from __future__ import annotations

from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rows import Use, row_name
from penstock.settings.limits import LimitSettings
from router.authority.ledger import Ledger
from router.model.resource_limits import Counted, Holder


class NearLimits:
    """The rows of a ledger's numbers in the shared counts; `defaults` are the node's limits."""

    def __init__(self, shared: SharedCounts, ledger: Ledger, defaults: LimitSettings) -> None:
        self._shared = shared
        self._ledger = ledger
        self._defaults = defaults
        self._near: set[tuple[Holder, Counted]] = set()

    def update(self) -> None:
        """Update the rows of numbers and limits that have changed since the last call."""
        usage = self._ledger.usage
        touched, usage.touched = usage.touched, set()
        for key in touched:
            self._update_row(*key)

    def _update_row(self, holder: Holder, counted: Counted) -> None:
        used = self._ledger.usage.numbers[holder, counted]
        limit = self._ledger.topology.limits.limit(holder, counted, self._defaults)
        near = limit is not None and Use(counted, *holder, used, limit).is_near
        if near or (holder, counted) in self._near:
            self._shared.put(row_name(counted, *holder), used if near else 0, limit)
        (self._near.add if near else self._near.discard)((holder, counted))
