"""Commands on the shards of a node (`router.authority.shards`): names, arguments, results.

command        arguments    result
shard_add                   the number of the new shard, which serves once its state is "serving"
shard_drain    shard        None; no further queue is placed there
shard_undrain  shard        None
shard_remove   shard        None; the shard has ended once `shard_list` omits it
shard_list                  [{shard, state, queues, moves}, …]; `moves` counts those from it or to it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.commands.administration import Administration


def shard_add(administration: Administration) -> int:
    return administration.authority.placing.add()


def shard_drain(administration: Administration, shard: int) -> None:
    administration.authority.placing.drain(shard)


def shard_undrain(administration: Administration, shard: int) -> None:
    administration.authority.placing.undrain(shard)


def shard_remove(administration: Administration, shard: int) -> None:
    administration.authority.placing.remove(shard)


def shard_list(administration: Administration) -> list[dict[str, Any]]:
    """Return all shards by number, with their states and the numbers of their queues and moves."""
    shards = administration.authority.placing
    return [
        {
            "shard": index,
            "state": shard.state,
            "queues": shards.queues_of(index),
            "moves": shards.moves_of(index),
        }
        for index, shard in sorted(shards.topology.shards.items())
    ]


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "shard_add": (shard_add, {}),
    "shard_drain": (shard_drain, {"shard": int}),
    "shard_undrain": (shard_undrain, {"shard": int}),
    "shard_remove": (shard_remove, {"shard": int}),
    "shard_list": (shard_list, {}),
}
