"""Queues without a home, with two homes, or on the wrong shard."""

from __future__ import annotations

from typing import Any

from ops.rebalance.plan import Move
from ops.rebalance.verifying import homes_wrong, not_done
from tests.ops.rebalance.test_applying import plan


def placement(*shards: int, moving: int | None = None) -> dict[str, Any]:
    queues = [{"vhost": "/", "name": f"q{id}", "id": id, "shard": shard} for id, shard in enumerate(shards)]
    return {"queues": queues, "moves": [] if moving is None else [{"queue_id": moving}]}


def test_every_queue_has_the_one_home_that_the_router_says() -> None:
    assert homes_wrong(placement(0, 1, 1), {0: [0], 1: [1, 2]}) == []
    assert homes_wrong(placement(0, 1, 0), {0: [0, 1], 1: [1, 0]}) == [
        "queue 'q0' in vhost '/' belongs on shard 0, is on 0 and 1",
        "queue 'q1' in vhost '/' belongs on shard 1, is on 0 and 1",
        "queue 'q2' in vhost '/' belongs on shard 0, is on none",
    ]
    assert homes_wrong(placement(0, moving=0), {0: [0], 1: [0]}) == []


def test_what_a_plan_has_not_come_to() -> None:
    made = plan()
    assert not_done(made, placement(1, 1, 1)) == []
    assert not_done(made, placement(1, 0)) == [
        "queue 'q1' in vhost '/' is on shard 0, not 1",
        "queue 'q2' in vhost '/' is gone",
    ]
    twice = plan(0)
    object.__setattr__(twice, "moves", (Move("/", "q0", 0, 0, 1), Move("/", "q0", 0, 1, 2)))
    assert not_done(twice, placement(2)) == []
