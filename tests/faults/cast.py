"""The cast of a run: queues of every kind, with their publishers and readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.faults.actor import Actor
from tests.faults.consumers import Consumer, Getter
from tests.faults.declarer import Declarer
from tests.faults.events import Record
from tests.faults.guests import Guest
from tests.faults.leasers import Leaser
from tests.faults.movers import Mover
from tests.faults.node import Node
from tests.faults.plan import MARKER_ARGUMENTS, MARKERS, Plan, QueuePlan, marker
from tests.faults.publishers import SMALL, Committer, Publisher, Route

BOTH = "to both"
FEW_BYTES: dict[str, Any] = {"sizes": SMALL}


@dataclass
class Cast:
    """All clients of a run. Publishers end while queues still have readers."""

    plan: Plan
    publishers: list[Actor]
    readers: list[Actor]
    declarer: Declarer
    guest: Guest

    @property
    def groups(self) -> list[list[Actor]]:
        """All clients, in the order in which they end; each group waits for the groups before it."""
        return [self.publishers, self.readers, [self.declarer, self.guest]]


def declare(node: Node, plan: Plan) -> None:
    """Declare everything in the plan; a repeated declaration must agree with the first."""
    with node.connect() as client:
        channel = client.channel()
        for queue in plan.queues.values():
            channel.call("queue.declare", queue=queue.name, durable=True, arguments=queue.arguments)
        for shard in range(plan.shards):
            channel.call("queue.declare", queue=marker(plan, shard), durable=True, arguments=MARKER_ARGUMENTS)
        for exchange in plan.exchanges():
            channel.call("exchange.declare", exchange=exchange, type="direct", durable=True)
        channel.call("exchange.declare", exchange=MARKERS, type="direct", durable=True)
        for shard in range(plan.shards):
            channel.call("queue.bind", queue=marker(plan, shard), exchange=MARKERS, routing_key=MARKERS)
        for exchange, key, queue_name in plan.bindings:
            channel.call("queue.bind", queue=queue_name, exchange=exchange, routing_key=key)


def nobody(node: Node, record: Record, seed: object) -> tuple[Plan, Cast]:
    """Return a cast without publishers and readers."""
    plan = Plan(node.vhost)
    return plan, Cast(plan, [], [], Declarer(node, record, "declarer", seed), Guest(node, record, "guest", seed))


def leasing(node: Node, record: Record, seed: object) -> Cast:
    """Return a cast with two readers by lease for each queue."""
    plan, cast = nobody(node, record, seed)
    for shard in range(plan.shards):
        queue = plan.add("leased", shard, shared=True)
        route = Route("", queue.name, (queue.name,))
        cast.publishers.append(Publisher(node, record, queue.name, seed, route, window=300, burst=20))
        for name in ("one", "two"):
            reader = f"{queue.name}/{name}"
            cast.readers.append(Leaser(node, record, reader, seed, queue, marker(plan, shard)))
    return cast


def everybody(node: Node, record: Record, seed: object) -> Cast:
    """Return the whole cast. A queue's ordinary reader and publisher have the name of the queue."""
    plan, cast = nobody(node, record, seed)

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
    impatient = plan.add(
        "impatient", 0, {"qpid.flow_stop_count": 30, "qpid.flow_resume_count": 10, "x-hold": "park 200 ms, reject"}
    )
    publisher(impatient, window=60, burst=20, returns=True, **FEW_BYTES)
    consumer(impatient, prefetch=10, pause=0.05)
    refusing = plan.add("refusing", 0, {"x-max-length": 30, "x-overflow": "reject-publish"})
    publisher(refusing, window=60, burst=20)
    consumer(refusing, prefetch=10, pause=0.05)

    spilled = plan.add("spilled", 1, {"x-overflow": "spill", "x-max-length": 5})
    publisher(spilled, window=300, burst=20, **FEW_BYTES)
    consumer(spilled, prefetch=10, pause=0.02)
    paced = plan.add("paced", 0, {"x-pace-depth": 20, "qpid.flow_stop_count": 60})
    publisher(paced, window=100, burst=20, **FEW_BYTES)
    consumer(paced, prefetch=10, pause=0.05)
    last_value = plan.add("last-value", 1, {"x-overflow": "last-value"}, keeps=7, by_key=True)
    publisher(last_value, keyed=last_value)
    consumer(last_value, prefetch=5, pause=0.08)
    marks = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}
    subscribed = [plan.add(stem, shard, marks) for shard, stem in enumerate(("quick", "lagging"))]
    plan.bind(BOTH, "subscribed", *subscribed)
    route = Route(BOTH, "subscribed", tuple(queue.name for queue in subscribed))
    cast.publishers.append(Publisher(node, record, "subscribed", seed, route, window=60, burst=20, sizes=SMALL))
    consumer(subscribed[0])
    consumer(subscribed[1], prefetch=10, pause=0.05)
    full_dead = plan.add("full-dead", 1, marks, repeats=True, waited_for=True)
    dying = [plan.add_dead("dying-full", shard, full_dead) for shard in range(plan.shards)]
    for queue in dying:
        publisher(queue, **FEW_BYTES)
    consumer(*dying, rejects=0.4)
    consumer(full_dead, prefetch=5, pause=0.02)

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
    for name, shard in (("moved", 1), ("moved-far", 0)):
        origin, target = plan.add(f"origin-{name}", 1), plan.add(name, shard)
        publisher(origin)
        cast.readers.append(Mover(node, record, f"mover-{name}", seed, origin, marker(plan, 1), target=target.name))
        consumer(target)
    return cast
