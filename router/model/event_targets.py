"""The targets of flow control's events: the queues bound to `amq.flow`, except those that are saturated or moving."""

from __future__ import annotations

from typing import Any

from penstock.flow.flow_events import EXCHANGE, routing_key
from penstock.memory.gauges import Gauges
from router.model.records import Queue
from router.model.topology import Topology


def event_targets(topology: Topology, gauges: Gauges, facts: dict[str, Any], seconds: int) -> list[Queue]:
    """Return the queues that get the message of an event (`penstock.flow.flow_events.event_batch`); `seconds` since
    1970.
    """
    properties = {"headers": facts, "timestamp": seconds}
    found = topology.route(facts["vhost"], EXCHANGE, routing_key(facts), properties)
    return [queue for queue in found if not topology.is_stopped(queue.queue_id) and not gauges.saturated(queue.slot)]
