"""The placement of queues on shards: rendezvous hashing (Thaler and Ravishankar, 1998), with a table of exceptions.

Every shard has a score for every queue, and the highest wins. So a new shard takes its share from all others, between
which nothing moves, and a removed one gives its queues to all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from router.model.records import Placement, Queue

Overrides = Mapping[tuple[str, str], Placement]
"""Placements by vhost and queue name."""


def place(vhost: str, queue: str, shards: Iterable[int], overrides: Overrides) -> int:
    """Return the shard of a queue. An override to a shard that is not among `shards` does not count.

    The result is the same in every process and every run. ValueError if there is no shard.
    """
    shards = tuple(shards)
    override = overrides.get((vhost, queue))
    if override is not None and override.shard is not None and override.shard in shards:
        return override.shard
    names = vhost.encode("utf-8", "surrogateescape"), queue.encode("utf-8", "surrogateescape")
    # The length separates the vhost from the name: ("ab", "c") is not ("a", "bc").
    label = b"%d.%b%b" % (len(names[0]), *names)
    return max(shards, key=lambda shard: (_score(label, shard), shard))


def by_shard(queues: Iterable[Queue]) -> dict[int, tuple[int, ...]]:
    """Return the ids of queues by their shard."""
    found: dict[int, tuple[int, ...]] = {}
    for queue in queues:
        found[queue.shard] = (*found.get(queue.shard, ()), queue.queue_id)
    return found


def _score(label: bytes, shard: int) -> bytes:
    return blake2b(label, digest_size=8, salt=shard.to_bytes(8, "big")).digest()
