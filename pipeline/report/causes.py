"""Causes and faults in words."""

from __future__ import annotations

from typing import Final

SHORT: Final[dict[str, str]] = {
    "count": "messages above the stop mark",
    "bytes": "bytes above the stop mark",
    "exchange": "limit of an exchange",
    "pattern": "limit of routing keys",
    "vhost": "limit of a vhost",
    "user": "limit of a user",
    "node": "limit of the node",
    "memory": "memory of a shard",
    "process memory": "memory of a process",
    "store": "store of a shard",
    "spill": "spilled messages",
    "link": "most in flight to a shard",
    "pressure": "vhost over its guarantee",
    "rate": "rate limit",
    "pace": "pace",
    "operator": "operator's stop",
    "rebalance": "move of a queue",
}
"""Causes, as in `flow.cause`."""
LONG: Final[dict[str, str]] = {
    "exchange": "the limit of an exchange over several queues",
    "pattern": "a limit over the queues of matching routing keys",
    "vhost": "the limit of the vhost over its queues",
    "user": "the limit of the user over several queues",
    "node": "the limit of the node over all queues",
    "memory": "a shard that ran short of memory",
    "process memory": "a process that ran short of memory",
    "store": "a shard whose store ran full",
    "spill": "a shard that had no room for more spilled messages",
    "link": "a shard that was late: no more could be in flight to it",
    "pressure": "a lack of memory, as its vhost was over its guarantee",
    "rate": "a rate limit",
    "pace": "the pace of a queue",
    "operator": "a stop by an operator",
    "rebalance": "the move of a queue to another shard",
}
"""Causes besides the marks of a single queue, as the holder of a producer."""
FAULTS: Final[dict[str, str]] = {
    "no consumers": "it had no consumers",
    "consumers stuck": "its consumers acked nothing",
    "consumers slow": "its consumers acked less than half as fast as usual",
    "producers": "more was published than its consumers handle at their usual speed",
    "unknown": "for an unknown reason, as this report has no rows of the queue at that time",
}
"""Faults of a full queue, as in `culprits.fault`: clauses with "because", but for the unknown one."""
FAULTS_IN_ORDER: Final = (*FAULTS, "limit")
