"""Who takes part in a run: the queues of every kind, who publishes to them and who reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.actor import Actor
from tests.faults.consumers import Consumer, Getter
from tests.faults.declarer import Declarer
from tests.faults.events import Record
from tests.faults.guests import Guest
from tests.faults.movers import Mover
from tests.faults.node import Node
from tests.faults.plan import MARKER_ARGUMENTS, Plan, QueuePlan, marker
from tests.faults.publishers import SMALL, Committer, Publisher, Route

BOTH = "to both"
FEW_BYTES: dict[str, Any] = {"sizes": SMALL}


@dataclass
class Cast:
    """All clients of a run. Publishers come to an end while the queues are still read."""

    plan: Plan
    publishers: list[Actor]
    readers: list[Actor]
    declarer: Declarer
    guest: Guest

    @property
    def groups(self) -> list[list[Actor]]:
        """All of them, those who come to an end first before those who wait for that."""
        return [self.publishers, self.readers, [self.declarer, self.guest]]


def declare(node: Node, plan: Plan) -> None:
    """Everything in the plan; again, it must be the same."""
    with node.connect() as client:
        channel = client.channel()
        for queue in plan.queues.values():
            channel.call("queue.declare", queue=queue.name, durable=True, arguments=queue.arguments)
        for shard in range(plan.shards):
            channel.call("queue.declare", queue=marker(plan, shard), durable=True, arguments=MARKER_ARGUMENTS)
        for exchange in plan.exchanges():
            channel.call("exchange.declare", exchange=exchange, type="direct", durable=True)
        for exchange, key, queue_name in plan.bindings:
            channel.call("queue.bind", queue=queue_name, exchange=exchange, routing_key=key)


def everybody(node: Node, record: Record, seed: object) -> Cast:
    """The whole cast. Names are those of queues: a queue's ordinary reader and publisher are called as it is."""
    plan = Plan(node.vhost)
    cast = Cast(plan, [], [], Declarer(node, record, "declarer", seed), Guest(node, record, "guest", seed))

    def publisher(*queues: QueuePlan, name: str = "", **options: Any) -> None:
        routes = [Route("", queue.name, (queue.name,)) for queue in queues]
        cast.publishers.append(Publisher(node, record, name or queues[0].name, seed, *routes, **options))

    def consumer(*queues: QueuePlan, **options: Any) -> None:
        for queue in queues:
            place = marker(plan, queue.shard)
            cast.readers.append(Consumer(node, record, queue.name, seed, queue, place, **options))

    plain = [plan.add("plain", shard) for shard in range(plan.shards)]
    for queue in plain:
        publisher(queue, window=300, burst=20)
    plan.bind(BOTH, "k", *plain)
    both = Route(BOTH, "k", tuple(queue.name for queue in plain))
    cast.publishers.append(Publisher(node, record, "both", seed, both))
    consumer(*plain)
    cast.readers.append(Getter(node, record, "getter", seed, plain[1], marker(plan, 1)))

    by_priority = plan.add("priority", 0, {"x-max-priority": 3}, by_priority=True)
    publisher(by_priority, highest=3)
    consumer(by_priority, prefetch=10)

    full = plan.add("full", 1, {"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20})
    for name in ("one", "two"):
        publisher(full, name=f"full/{name}", window=60, burst=20, polite=name == "two", **FEW_BYTES)
    consumer(full, prefetch=10, pause=0.05)
    refusing = plan.add("refusing", 0, {"x-max-length": 30, "x-overflow": "reject-publish"})
    publisher(refusing, window=60, burst=20)
    consumer(refusing, prefetch=10, pause=0.05)

    near = [plan.add("near-dead", shard) for shard in range(plan.shards)]
    far = [plan.add("far-dead", shard, repeats=True) for shard in range(plan.shards)]
    rejecting = [plan.add_dead("dying-near", 0, near[0]), plan.add_dead("dying-far", 1, far[0])]
    for queue in rejecting:
        publisher(queue)
    consumer(*rejecting, rejects=0.4)
    ring = {"x-max-length": 25, "x-overflow": "ring"}
    rings = [
        plan.add("ring", 1, ring, keeps=25),
        plan.add_dead("dying-ring", 0, far[1], arguments=ring, dies_unread=True),
    ]
    for queue in rings:
        publisher(queue, window=200, burst=20)
    consumer(*rings, prefetch=5, pause=0.08)
    publisher(plan.add_dead("expiring", 0, far[1], arguments={"x-message-ttl": 150}, dies_unread=True, unread=True))
    mixed = plan.add_dead("some-expiring", 1, near[1], dies_unread=True)
    publisher(mixed, ttl=200)
    consumer(mixed, prefetch=5, pause=0.05)
    consumer(*near, *far)

    committed = [plan.add("committed", shard) for shard in range(plan.shards)]
    routes = [Route("", queue.name, (queue.name,)) for queue in committed]
    cast.publishers.append(Committer(node, record, "committer", seed, *routes))
    consumer(*committed)
    origin, target = plan.add("origin", 1), plan.add("moved", 1)
    publisher(origin)
    cast.readers.append(Mover(node, record, "mover", seed, origin, marker(plan, 1), target=target.name))
    consumer(target)
    return cast
