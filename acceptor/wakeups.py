"""Looks whether a wake-up was ever lost: in a correct run none is, and this counts none.

What wakes those who wait at a queue is its shard's broadcast, made when the queue has changed. That the acceptor looks
for itself every `flow.recheck_seconds` heals a lost one, and would hide it. So between two looks is compared which flow
epoch the gauges of a queue had with the latest that was heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.inlet import Inlet

log = get_logger()


class WakeUps:
    """`lost` is how many changes of queues that somebody waited at were never told."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.lost = 0
        self._seen: dict[Inlet, int] = {}
        self._heard: dict[int, int] = {}
        self._missing: dict[Inlet, int] = {}

    def hear(self, id: int, epoch: int) -> None:
        """A broadcast of a queue."""
        self._heard[id] = max(epoch, self._heard.get(id, 0))

    def look(self, waited_at: list[Inlet]) -> None:
        """From time to time: at the queues that somebody waits at, whose shards are up."""
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
        """A shard has died: what it did not tell any more is no loss."""
        self._seen.clear()
        self._missing.clear()
