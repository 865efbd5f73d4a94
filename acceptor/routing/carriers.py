"""The shards that pass the answers of direct replies on (`penstock.amqp.replies`)."""

from __future__ import annotations

from router.model.records import DRAINING, SERVING
from router.model.topology import Topology


def carriers(topology: Topology) -> list[int]:
    """Those that are there to stay, for a while at least."""
    return sorted(shard.number for shard in topology.shards.values() if shard.state in (SERVING, DRAINING))
