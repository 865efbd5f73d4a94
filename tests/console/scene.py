"""A node as the HTTP interface sees it, with gauges that a test writes and a clock that it sets."""

from __future__ import annotations

import os
from pathlib import Path

from console.broker import Broker
from console.sampler import Sampler
from penstock.control.audit import Audit
from penstock.memory.gauges import READY, Gauges
from penstock.node.node import Node
from penstock.settings import Settings
from router.model.records import Queue
from router.model.topology import Topology

SHARDS = 2
EPOCH = 1_700_000_000_000_000


class Scene:
    """The node, with two shards. Queues are opened one after the other, in slots of that order."""

    def __init__(self, directory: Path) -> None:
        self.now = 1000.0
        path = directory / "gauges"
        self.gauges = Gauges.create(path, epoch=EPOCH, acceptors=1, shards=SHARDS, queues=16, pid=os.getpid())
        for shard in range(SHARDS):
            self.gauges.process_write(
                "shard", shard, pid=os.getpid(), incarnation=1, state=READY, started_us=EPOCH, restarts=0
            )
        settings = Settings.from_resolved({"acceptors": 1, "shards": SHARDS, "data": str(directory)})
        self.topology = Topology(0, [["vhost", "/"], ["vhost", "eu"]])
        node = Node(EPOCH, directory, path, "127.0.0.1", 5, settings, 0)
        self.broker = Broker(node, self.gauges, self.topology, Audit(directory, "console", 0))
        self.broker.sampler = Sampler(self.gauges, lambda: self.now)
        self.queues = 0

    def queue(self, name: str, vhost: str = "/") -> int:
        """Open a queue; return its slot."""
        slot = SHARDS + self.queues
        self.queues += 1
        self.topology.apply(Queue(vhost, name, self.queues, slot, 0, True, False, None, {}, [], []).change())
        self.gauges.queue_open(slot, self.queues, vhost, name, EPOCH)
        return slot

    def write(self, slot: int, ready: int = 0, unacked: int = 0, published: int = 0, delivered: int = 0) -> None:
        """Write the messages of a queue, each of ten bytes."""
        self.gauges.queue_write(
            slot, ready, unacked, 10 * ready, 10 * unacked, published, delivered, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
        )

    def hold(self, shard: int, resource: int, reason: str) -> None:
        """Have a shard hold its producers for a resource, by its number in docs/gauges.md."""
        self.gauges.gate_explain(shard, reason)
        self.gauges.queue_write(shard, 900, 0, 5, 0, 0, 0, 0, 0, 0, resource, 1, 1, EPOCH, 0, 0, 5, 4)

    def second(self) -> None:
        """Let a second pass, and a sample be taken."""
        self.now += 1
        self.broker.sampler.tick()
