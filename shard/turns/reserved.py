"""Room that is kept in queues for the transactions of channels (see `shard.transactions.transactions`)."""

from __future__ import annotations

from shard.turns.link import Link


def release(link: Link, group: int) -> None:
    """Give back what is kept for a channel, if anything is."""
    for queue, count, octets in link.reserved.pop(group, ()):
        queue.reserved -= count
        queue.reserved_bytes -= octets
