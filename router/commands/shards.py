"""What can be commanded of the shards of a node: names, arguments, results (`router.authority.shards`).

command        arguments    result
shard_add                   the number of the new shard, which serves once its state says so
shard_drain    shard        None; no queue is placed there any more
shard_undrain  shard        None
shard_remove   shard        None; it is gone once it is not listed any more
shard_list                  [{shard, state, queues, moves}, …]; `moves` from it or to it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.control.control import Refusal
from router.authority.shards import Shards
from router.commands.administration import Administration


def shards_of(administration: Administration) -> Shards:
    if administration.moves is None:
        raise Refusal("failed", "there are no shards here")
    return administration.moves.placing


def shard_add(administration: Administration) -> int:
    return shards_of(administration).add()


def shard_drain(administration: Administration, shard: int) -> None:
    shards_of(administration).drain(shard)


def shard_undrain(administration: Administration, shard: int) -> None:
    shards_of(administration).undrain(shard)


def shard_remove(administration: Administration, shard: int) -> None:
    shards_of(administration).remove(shard)


def shard_list(administration: Administration) -> list[dict[str, Any]]:
    shards = shards_of(administration)
    return [
        {
            "shard": index,
            "state": state,
            "queues": shards.queues_of(index),
            "moves": shards.moves_of(index),
        }
        for index, state in sorted(shards.topology.shards.items())
    ]


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "shard_add": (shard_add, {}),
    "shard_drain": (shard_drain, {"shard": int}),
    "shard_undrain": (shard_undrain, {"shard": int}),
    "shard_remove": (shard_remove, {"shard": int}),
    "shard_list": (shard_list, {}),
}
