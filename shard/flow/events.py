"""Flow events of a shard's queues, published as messages on the exchange `amq.flow` of their vhost.

    event     when                                                                   more headers
    stop      the queue is saturated: its producers are held
    resume    it has room again                                                      seconds, peak_count, peak_bytes
    near      it has come to flow.near_percent of a stop mark: once, until both
              count and bytes have been at or below their resume marks
    limits    its marks have changed
    deadlock  it is one of a circle of queues that wait for each other (ops/deadlock_search.py)
    lagging   it lags: it is saturated, and publishes to several queues go on without its room (acceptor/gates/fan.py)
    spills    it is above a stop mark but may not hold producers (router/authority/standing.py)
    drops     it may not hold producers and is at the limit of such queues: its oldest messages are dropped

The routing key is EVENT.VHOST.QUEUE; headers are event, vhost, queue, count, bytes, stop_count, resume_count,
stop_bytes, resume_bytes, epoch; the body is the same as JSON. `seconds` is how long the queue was saturated, the peaks
are of that time, and `dropped` is present if earlier events were dropped.

Events are published at most once and hold no producer: a saturated queue gets none, nor does another shard that does
not keep up.
"""

from __future__ import annotations

from typing import Any

from penstock.flow.flow_events import EXCHANGE, event_batch
from router.model.event_targets import event_targets
from router.model.placement import by_shard
from router.model.topology import Queue
from shard.queue.queue_state import QueueState
from shard.serving.intake import Intake
from shard.turns.peers import Peers
from shard.turns.state import ShardState

# Events in one turn; those beyond are dropped, and counted in the next event.
EVENTS_MAX = 1024
# Records in one second: there may be as many stops as turns of the loop, and a file should cover more than a minute.
RECORDS_MAX = 20


class Events:
    """The events of one shard that are still to be published."""

    def __init__(self, state: ShardState, peers: Peers, intake: Intake) -> None:
        self.state = state
        self.peers = peers
        self.intake = intake
        self.waiting: list[dict[str, Any]] = []
        self.dropped = 0
        self.records: list[dict[str, Any]] = []
        self._recorded = (0, 0)
        self._left_out = 0

    def record(self, event: str, queue: QueueState, **more: float | str) -> None:
        """Record an event, and publish it at the end of the turn if the vhost has listeners."""
        published, recorded = self.has_listeners(queue.vhost), self.has_space()
        if not published and not recorded:
            return
        marks = queue.limits.marks
        facts = {
            "event": event, "vhost": queue.vhost, "queue": queue.name, "count": queue.depth, "bytes": queue.depth_bytes,
            "stop_count": marks.stop_count, "resume_count": marks.resume_count, "stop_bytes": marks.stop_bytes,
            "resume_bytes": marks.resume_bytes, "epoch": queue.saturation.epoch, **more,
        }  # fmt: skip
        if recorded:
            left_out, self._left_out = self._left_out, 0
            self.records.append({"at": self.state.now / 1e6, **facts, **({"left_out": left_out} if left_out else {})})
        if published and len(self.waiting) >= EVENTS_MAX:
            self.dropped += 1
        elif published:
            self.waiting.append(facts)

    def has_space(self) -> bool:
        """Whether another event may be recorded within this second."""
        second, count = self._recorded
        now = self.state.now // 1_000_000
        if now == second and count >= RECORDS_MAX:
            self._left_out += 1
            return False
        self._recorded = (now, count + 1 if now == second else 1)
        return True

    def has_listeners(self, vhost: str) -> bool:
        """Whether `amq.flow` of a vhost exists and has bindings."""
        topology = self.state.topology
        return topology.exchange(vhost, EXCHANGE) is not None and bool(topology.bindings_from(vhost, EXCHANGE))

    def publish_waiting(self) -> None:
        """Publish the waiting events."""
        waiting, self.waiting = self.waiting, []
        for facts in waiting:
            if self.dropped:
                facts["dropped"], self.dropped = self.dropped, 0
            targets = event_targets(self.state.topology, self.state.gauges, facts, self.state.wall_seconds())
            if targets:
                self.publish(targets, facts)

    def publish(self, targets: list[Queue], facts: dict[str, Any]) -> None:
        """Publish an event to its target queues, here and on other shards."""
        batch = event_batch(facts, self.state.wall_seconds())
        for shard, ids in by_shard(targets).items():
            if shard == self.state.index:
                for id in ids:
                    self.intake.enqueue_internal(id, batch)
            elif not self.peers.full():
                self.peers[shard].publish(ids, batch, lambda: None)
            else:
                self.dropped += 1
