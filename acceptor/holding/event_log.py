"""Events of flow control at an acceptor, published to amq.flow and recorded."""

from __future__ import annotations

from typing import Any

from acceptor.links.shard_link import ShardLink
from penstock.bus import to_shard
from penstock.flow.flow_events import event_batch
from penstock.memory.gauges import Gauges
from router.model.event_targets import event_targets
from router.model.placement import by_shard
from router.model.topology import Topology

# Events that may wait to be written down; further ones are only published.
MOST_RECORDS = 1024


class EventLog:
    """The events of one acceptor. `records` are those still to be written down."""

    def __init__(self, topology: Topology, gauges: Gauges, links: list[ShardLink]) -> None:
        self.topology = topology
        self.gauges = gauges
        self.links = links
        self.records: list[dict[str, Any]] = []

    def publish(self, facts: dict[str, Any], at: float) -> None:
        """Publish and record an event of a time in seconds since 1970: at most once, and to no queue that is full."""
        if len(self.records) < MOST_RECORDS:
            self.records.append({"at": at, **facts})
        targets = event_targets(self.topology, self.gauges, facts, int(at))
        if not targets:
            return
        batch = event_batch(facts, int(at))
        for shard, ids in by_shard(targets).items():
            link = self.links[shard]
            if min(link.room()) > 0:
                link.send(to_shard.Excused(ids, 1, batch.whole(0, 1)))
                link.publish(ids, batch, 0, 1, None)

    def take_all(self) -> list[dict[str, Any]]:
        """Remove and return the records."""
        records, self.records = self.records, []
        return records
