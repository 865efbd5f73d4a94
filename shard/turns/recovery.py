"""The first moments of a later life of a shard: what acceptors' clients have in hand must be known before it delivers.

Each acceptor that was there when the shard began tells it so in its first turn (HOLD); what it says after that,
requests among it, waits until all have. An acceptor that dies is not waited for, and nobody is for longer than
`PATIENCE_US`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.node.logs import get_logger
from shard.turns.link import Link, life_of

log = get_logger()

PATIENCE_US = 5_000_000

Life = tuple[int, int]
"""Index and incarnation of an acceptor."""


class Recovery:
    """Who is waited for, until when (microseconds since 1970); `held` are the links of those who need not be."""

    def __init__(self, acceptors: Iterable[Life], now: int) -> None:
        self.awaited = set(acceptors)
        self.held: set[Link] = set()
        self.deadline = now + PATIENCE_US

    def heard_of(self, link: Link) -> None:
        """An acceptor has said what it has in hand."""
        self.held.add(link)
        self.awaited.discard(life_of(link.identity)[1:])

    def died(self, role: str, index: int, incarnation: int) -> None:
        if role == "acceptor":
            self.awaited = {life for life in self.awaited if life[0] != index or life[1] > incarnation}

    def is_over(self, now: int) -> bool:
        """Whether all have been heard of, or for too long have not."""
        if self.awaited and now >= self.deadline:
            log.warning("acceptors do not say what they have in hand: it may be delivered twice",
                        acceptors=sorted(index for index, _ in self.awaited))  # fmt: skip
        return not self.awaited or now >= self.deadline
