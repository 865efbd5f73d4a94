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
    from acceptor.gates.queue_gate import QueueGate

log = get_logger()


class WakeUps:
    """The wake-ups of one acceptor. `lost` counts changes, at queues with waiting channels, without a broadcast."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.lost = 0
        self._seen: dict[QueueGate, int] = {}
        self._epochs: dict[int, int] = {}
        self._missing: dict[QueueGate, int] = {}

    def on_broadcast(self, id: int, epoch: int) -> None:
        """Record a queue's broadcast."""
        self._epochs[id] = max(epoch, self._epochs.get(id, 0))

    def poll(self, waited_at: list[QueueGate]) -> None:
        """Compare the gauges of queues with waiting channels with their broadcasts. A change counts as lost if it is
        not broadcast by the poll after the one that saw it. Called while all shards are up.
        """
        for queue_gate, epoch in self._missing.items():
            if not queue_gate.closed and self._epochs.get(queue_gate.id, 0) < epoch:
                self.lost += 1
                log.warning("wake-up lost", queue=queue_gate.name, vhost=queue_gate.vhost, epoch=epoch)
        seen = {
            queue_gate: self.gauges.flow_epoch(queue_gate.slot) for queue_gate in waited_at if not queue_gate.closed
        }
        self._missing = {
            queue_gate: seen.get(queue_gate, 0)
            for queue_gate, before in self._seen.items()
            if before < seen.get(queue_gate, 0) and self._epochs.get(queue_gate.id, 0) < seen[queue_gate]
        }
        self._epochs = {gate.id: self._epochs[gate.id] for gate in seen if gate.id in self._epochs}
        self._seen = seen

    def forget(self) -> None:
        """A shard has died: a change that it did not broadcast any more is no loss."""
        self._seen.clear()
        self._missing.clear()
