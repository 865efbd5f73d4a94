"""The coordinator of a transaction over several shards (shard/transactions/two_phase.py has the protocol, and why it
holds).

      preparing ──(all have kept their parts)──▶ deciding ──(the decision is kept)──▶ doing ──(kept by all)──▶ over

Each step is a request to shards, which their links repeat to later incarnations. It goes on even if the channel or
connection of the transaction has ended. A shard that is gone for good, and thus has no queues, is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from penstock.bus import to_shard


class Link(Protocol):
    """A shard, as `acceptor.links.shard_link.ShardLink` represents it."""

    index: int

    def ask(
        self, request: to_shard.Request, reply: Callable[[Any, Sequence[Any] | None, Sequence[Any]], None]
    ) -> None: ...


class TwoPhase:
    """One transaction whose parts have left, by their common number. The first of its shards decides.

    `stored`: a store has something of it.
    """

    def __init__(self, number: int, shards: Sequence[Link], done: Callable[[], None]) -> None:
        self.number = number
        self.decider, *self.others = shards
        self.done = done
        self.stored = False
        self._awaited: set[int] = set()

    def begin(self) -> None:
        """Wait until all shards have kept their parts, then have it decided and done."""
        self._ask((self.decider, *self.others), to_shard.Prepared(self.number), self._prepared)

    def _prepared(self) -> None:
        others = [link.index for link in self.others]
        self._ask((self.decider,), to_shard.Decide(self.number, others, self.stored), self._decided)

    def _decided(self) -> None:
        self._ask((self.decider, *self.others), to_shard.Do(self.number), self.done)

    def _ask(self, links: Iterable[Link], request: to_shard.Request, then: Callable[[], None]) -> None:
        asked = list(links)
        self._awaited = {link.index for link in asked}
        for link in asked:
            link.ask(request, partial(self._answered, link.index, then))

    def _answered(
        self, shard: int, then: Callable[[], None], result: Any, error: Sequence[Any] | None, parts: Sequence[Any]
    ) -> None:
        self.stored |= bool(result)
        self._awaited.discard(shard)
        if not self._awaited:
            then()
