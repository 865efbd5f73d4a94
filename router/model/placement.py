"""Which shard a queue belongs on: rendezvous hashing (Thaler and Ravishankar, 1998), with a table of exceptions.

Every shard has a score for every queue, and the highest wins. So one more shard takes its share from all others and
nothing moves between those, and one less gives its queues to all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from router.model.records import Queue

Overrides = Mapping[tuple[str, str], int]
"""Shards by vhost and queue name."""


def place(vhost: str, queue: str, shards: Iterable[int], overrides: Overrides) -> int:
    """The shard of a queue. An override to a shard that is not among `shards` does not count.

    The same in every process and every run. ValueError if there is no shard.
    """
    shards = tuple(shards)
    override = overrides.get((vhost, queue))
    if override is not None and override in shards:
        return override
    names = vhost.encode("utf-8", "surrogateescape"), queue.encode("utf-8", "surrogateescape")
    # With its length the vhost cannot run into the name: ("ab", "c") is not ("a", "bc").
    label = b"%d.%b%b" % (len(names[0]), *names)
    return max(shards, key=lambda shard: (_score(label, shard), shard))


def by_shard(queues: Iterable[Queue]) -> dict[int, tuple[int, ...]]:
    """The ids of queues by the shard they live on."""
    found: dict[int, tuple[int, ...]] = {}
    for queue in queues:
        found[queue.shard] = (*found.get(queue.shard, ()), queue.queue_id)
    return found


def _score(label: bytes, shard: int) -> bytes:
    return blake2b(label, digest_size=8, salt=shard.to_bytes(8, "big")).digest()
