"""Detection of lost wake-ups; a correct run has none.

Channels that wait at a queue are woken by its shard's broadcast of a change. The acceptor's own poll, every
`flow.recheck_seconds`, repairs the loss of a broadcast, and would hide it. So at each poll the flow epoch in a queue's
gauges is compared with the latest one that was broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.gates.inlet import Inlet

log = get_logger()


class WakeUps:
    """The wake-ups of one acceptor. `lost` counts changes, at queues with waiting channels, without a broadcast."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.lost = 0
        self._seen: dict[Inlet, int] = {}
        self._heard: dict[int, int] = {}
        self._missing: dict[Inlet, int] = {}

    def hear(self, id: int, epoch: int) -> None:
        """Record a queue's broadcast."""
        self._heard[id] = max(epoch, self._heard.get(id, 0))

    def look(self, waited_at: list[Inlet]) -> None:
        """Compare the gauges of queues with waiting channels with their broadcasts. A change counts as lost if it is
        not broadcast by the poll after the one that saw it. Called while all shards are up.
        """
        for inlet, epoch in self._missing.items():
            if not inlet.closed and self._heard.get(inlet.id, 0) < epoch:
                self.lost += 1
                log.warning("wake-up lost", queue=inlet.name, vhost=inlet.vhost, epoch=epoch)
        seen = {inlet: self.gauges.flow_epoch(inlet.slot) for inlet in waited_at if not inlet.closed}
        self._missing = {
            inlet: seen.get(inlet, 0)
            for inlet, before in self._seen.items()
            if before < seen.get(inlet, 0) and self._heard.get(inlet.id, 0) < seen[inlet]
        }
        self._heard = {inlet.id: self._heard[inlet.id] for inlet in seen if inlet.id in self._heard}
        self._seen = seen

    def forget(self) -> None:
        """A shard has died: a change that it did not broadcast any more is no loss."""
        self._seen.clear()
        self._missing.clear()
