"""Room kept in queues for the transactions of channels (see `shard.transactions.transactions`)."""

from __future__ import annotations

from shard.turns.link import Link


def release(link: Link, group: int) -> None:
    """Give back the room kept for a channel, if any."""
    for queue, count, nbytes in link.reserved.pop(group, ()):
        queue.pending.release(count, nbytes)
