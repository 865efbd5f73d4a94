"""The shards that pass on direct replies: those that stay for a while."""

from __future__ import annotations

from acceptor.routing.carriers import carriers
from router.model.records import DRAINING, LEAVING, SERVING, STARTING
from router.model.topology import Topology


def test_shards_that_serve_or_drain_carry_replies_in_order_of_their_numbers() -> None:
    changes = [["shard", 3, SERVING], ["shard", 0, DRAINING], ["shard", 2, STARTING], ["shard", 1, LEAVING]]
    topology = Topology(1, changes)
    assert carriers(topology) == [0, 3]
    topology.apply(["shard", 2, SERVING])
    topology.apply(["shard_gone", 3])
    assert carriers(topology) == [0, 2]
