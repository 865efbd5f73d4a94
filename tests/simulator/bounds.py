"""How much a simulated node keeps for its clients."""

from __future__ import annotations

from typing import Any, NamedTuple

from shard.dead_letters.burial import KEPT_BACK

AMQP = {"max_message_size": 400_000, "unfinished_bytes": 150_000, "output_bytes": 400_000}
FAR = 1 << 30
"""A limit in bytes that no play reaches."""
USERS_SHARE = 1 << 20
"""What one user may have at an acceptor, in bytes."""
LITTLE = {"held_bytes": 65536, "parked_memory": 40_000, "spool_limit": 260_000, "user_percent": 50}
"""Small limits of parked publishes, of a client, and of its user at an acceptor (half of memory and disk)."""


class Bounds(NamedTuple):
    """The node's limit of messages in memory, in bytes, and what happens to a client for which little is kept, and not
    more can be; "" if the usual amounts are kept.
    """

    memory: int = FAR
    last_resort: str = ""
    unprivileged: int = FAR
    """How many bytes an unprivileged queue may have before it drops its oldest messages."""
    kept_back: int = KEPT_BACK
    """How many bytes of dead messages, or due ones, may wait before their queue keeps the rest."""

    def options(self, acceptors: int) -> dict[str, Any]:
        """Return the settings of a node, apart from flow control."""
        options: dict[str, Any] = {"memory_limit": self.memory}
        if self.last_resort:
            process_limit = 100 * acceptors * USERS_SHARE
            options |= {"memory": {"process_limit": process_limit, "user_percent": 1}, "amqp": AMQP, "spools": True}
        return options

    def flow(self) -> dict[str, Any]:
        """Return the settings of flow control."""
        little = LITTLE | {"last_resort": self.last_resort} if self.last_resort else {}
        return little | {"unprivileged_limit": self.unprivileged}
