"""Ids of consumers on the bus, 64 bits: a number that its acceptor counts up, and in the lowest byte a shard's index.

The shard is that of the consumer's queue, and changes when the queue moves. The gets of a channel have an id too, which
GETS marks: no prefetch limit counts their messages. consumer_ids.pxd has the same for compiled modules.
"""

from __future__ import annotations

SHARD_BITS = 8
SHARD_MASK = 255
GETS_BIT = 62
GETS = 1 << GETS_BIT

MOST_SHARDS = SHARD_MASK
"""The maximum number of shards, spare ones included: indexes are below it, and one more index stands for no shard."""


def consumer_id(number: int, shard: int) -> int:
    """Return the id of a consumer."""
    return number << SHARD_BITS | shard


def shard_of(id: int) -> int:
    """Return the index in an id."""
    return id & SHARD_MASK


def at_shard(id: int, shard: int) -> int:
    """Return an id with the index of another shard."""
    return id & ~SHARD_MASK | shard
