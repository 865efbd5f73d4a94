"""Commands on the placement of queues: names, arguments, results.

command           arguments                                                    result
queue_move        vhost, name, shard, placement_version (int | None),          as in router.authority.moving, at its end
                  plan (str | None)
queue_move_abort  vhost, name                                                  whether a move is rolled back
placement         vhost | None                                                 {version, shards, closed, queues:
                                                                               [{vhost, name, id, shard, durable,
                                                                               immovable}], moves}

`closed` are the shards on which no queue is placed. `immovable` says why a queue cannot be moved, "" if it can.
`router.core` carries out `queue_move`, and answers it when the move is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from router.authority.moving import immovable
from router.commands.administration import Administration, check_vhost
from router.model.records import SERVING

MOVE = "queue_move"
MOVE_ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("vhost", "name"), str),
    "shard": int,
    "placement_version": (int, type(None)),
    "plan": (str, type(None)),
}


def queue_move_abort(administration: Administration, vhost: str, name: str) -> bool:
    """Roll back the move of a queue; whether there was one to roll back."""
    check_vhost(administration.ledger, vhost)
    return administration.moves.abort(vhost, name)


def placement(administration: Administration, vhost: str | None) -> dict[str, Any]:
    """Return the shards of the queues of a vhost, or (None) of all queues, and the moves that are not over."""
    topology = administration.ledger.topology
    if vhost is not None:
        check_vhost(administration.ledger, vhost)
    queues = topology.queues() if vhost is None else topology.queues_in(vhost)
    return {
        "version": topology.placement_version,
        "shards": sorted(topology.shards),
        "closed": sorted(shard.number for shard in topology.shards.values() if shard.state != SERVING),
        "queues": [
            {
                **{field: getattr(queue, field) for field in ("vhost", "name", "shard", "durable")},
                "id": queue.queue_id,
                "immovable": immovable(queue),
            }
            for queue in queues
        ],
        "moves": [asdict(move) for move in topology.moves.values()],
    }


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "queue_move_abort": (queue_move_abort, dict.fromkeys(("vhost", "name"), str)),
    "placement": (placement, {"vhost": (str, type(None))}),
}
