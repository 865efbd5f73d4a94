"""Checks that every queue is on one shard, the router's, and that the queues of a plan are on their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ops.rebalance.plan import Plan


def homes_wrong(placement: Mapping[str, Any], held: Mapping[int, Sequence[int]]) -> list[str]:
    """Describe queues that are on no shard, on several or on a wrong one; those being moved are skipped.

    `placement` is the router's answer, `held` the ids of the queues that each shard reports.
    """
    moving = {move["queue_id"] for move in placement["moves"]}
    homes: dict[int, list[int]] = {}
    for shard, ids in held.items():
        for id in ids:
            homes.setdefault(id, []).append(shard)
    wrong = []
    for queue in placement["queues"]:
        found = sorted(homes.get(queue["id"], []))
        if queue["id"] not in moving and found != [queue["shard"]]:
            where = " and ".join(map(str, found)) or "none"
            wrong.append(
                f"queue '{queue['name']}' in vhost '{queue['vhost']}' belongs on shard {queue['shard']}, is on {where}"
            )
    return wrong


def not_done(plan: Plan, placement: Mapping[str, Any]) -> list[str]:
    """Describe queues of a plan that are not on their targets."""
    places = {queue["id"]: queue["shard"] for queue in placement["queues"]}
    ends = {move.queue_id: move for move in plan.moves}
    return [
        f"queue '{move.queue}' in vhost '{move.vhost}' is "
        + (f"on shard {places[id]}, not {move.target}" if id in places else "gone")
        for id, move in ends.items()
        if places.get(id) != move.target
    ]
