"""What happens to the flow of a shard's queues, told as messages on the exchange `amq.flow` of their vhost.

    event     when                                                                   more headers
    stop      the queue is saturated: its producers are held
    resume    it has room again                                                      seconds, peak_count, peak_bytes
    near      it has come to flow.near_percent of a stop mark: once, until both
              count and bytes have been at or below their resume marks
    limits    its marks are others

The routing key is EVENT.VHOST.QUEUE; headers are event, vhost, queue, count, bytes, stop_count, resume_count,
stop_bytes, resume_bytes, epoch; the body is the same as JSON. `seconds` is how long it was saturated, the peaks are of
that time, `dropped` is there if events before this one were.

Events are told at most once and hold nobody: a saturated queue gets none, nor does another shard that does not keep up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from penstock.amqp.properties import encode_properties
from penstock.amqp.spec import BASIC_CLASS
from penstock.amqp.values import Timestamp
from penstock.batch_cy import HAS_HEADERS, BatchBuilder
from router.topology import Queue
from shard.peers import by_shard

if TYPE_CHECKING:
    from shard.core import ShardCore
    from shard.queues import QueueState

EXCHANGE = "amq.flow"
# In one turn; what is beyond is dropped, and counted in the next one that is told.
EVENTS_MAX = 1024
SHORT_STRING_MAX = 255


class Events:
    """The events of one shard that are still to be told."""

    def __init__(self, core: ShardCore) -> None:
        self.core = core
        self.waiting: list[dict[str, Any]] = []
        self.dropped = 0

    def note(self, event: str, queue: QueueState, **more: int | float) -> None:
        """Something happened; it is told at the end of the turn."""
        if not self.has_listeners(queue.vhost):
            return
        if len(self.waiting) >= EVENTS_MAX:
            self.dropped += 1
            return
        marks = queue.limits.marks
        facts = {
            "event": event, "vhost": queue.vhost, "queue": queue.name, "count": queue.depth, "bytes": queue.depth_bytes,
            "stop_count": marks.stop_count, "resume_count": marks.resume_count, "stop_bytes": marks.stop_bytes,
            "resume_bytes": marks.resume_bytes, "epoch": queue.saturation.epoch, **more,
        }  # fmt: skip
        self.waiting.append(facts)

    def has_listeners(self, vhost: str) -> bool:
        topology = self.core.topology
        return topology.exchange(vhost, EXCHANGE) is not None and bool(topology.bindings_from(vhost, EXCHANGE))

    def tell(self) -> None:
        """Publish what waits."""
        waiting, self.waiting = self.waiting, []
        for facts in waiting:
            if self.dropped:
                facts["dropped"], self.dropped = self.dropped, 0
            key = f"{facts['event']}.{facts['vhost']}.{facts['queue']}"
            found = self.core.topology.route(facts["vhost"], EXCHANGE, key, facts)
            targets = [target for target in found if not self.core.gauges.saturated(target.slot)]
            if targets:
                self.publish(targets, key, facts)

    def publish(self, targets: list[Queue], key: str, facts: dict[str, Any]) -> None:
        builder = BatchBuilder()
        builder.add(*_message(key, facts, self.core.now // 1_000_000), HAS_HEADERS)
        batch = builder.finish()
        for shard, ids in by_shard(targets).items():
            if shard == self.core.index:
                for id in ids:
                    self.core.enqueue(id, batch, 0, 1)
            elif not self.core.peers.full():
                self.core.peers[shard].publish(ids, batch, lambda: None)
            else:
                self.dropped += 1


def _message(key: str, facts: dict[str, Any], seconds: int) -> tuple[bytes, bytes, bytes]:
    """Address, header and body."""
    body = orjson.dumps({name: _readable(value) for name, value in facts.items()})
    properties = encode_properties(
        {
            "content_type": "application/json",
            "headers": facts,
            "timestamp": Timestamp(seconds),
            "type": f"flow.{facts['event']}",
            "app_id": "penstock",
        }
    )
    header = BASIC_CLASS.to_bytes(2, "big") + bytes(2) + len(body).to_bytes(8, "big") + properties
    routing_key = key.encode("utf-8", "surrogateescape")[:SHORT_STRING_MAX]
    address = bytes([len(EXCHANGE)]) + EXCHANGE.encode() + bytes([len(routing_key)]) + routing_key
    return address, header, body


def _readable(value: object) -> object:
    """JSON has no text that is not UTF-8."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value
