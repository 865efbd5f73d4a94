"""What the consumers of each user may have in hand from this shard, over all acceptors (`limits.user_unacked_…`).

Each shard keeps an equal part of what a user may have, at least for a message. Where it is used up consumers fall
asleep. Once less is in hand some are woken, until it is used up again or nobody sleeps; a few at a time, for thousands
may sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from weakref import WeakValueDictionary

from penstock.memory.shared_rows import Use
from penstock.node.logs import get_logger
from penstock.settings.limits import LimitSettings
from shard.contents.queue_cy import UNLIMITED
from shard.queue.consumer_cy import Consumer, Hand

AT_ONCE = 16
"""Sleepers of a user that are woken before it is looked at whether there is room for more."""

log = get_logger()


class Hands:
    """Those of all users. `asleep` are the ones that consumers wait for."""

    def __init__(self, limits: LimitSettings, shards: int) -> None:
        self._limits = limits
        self._hands: WeakValueDictionary[str, Hand] = WeakValueDictionary()
        self.asleep: dict[Hand, None] = {}
        self.share(shards)

    def share(self, shards: int) -> None:
        """The limits are shared by so many shards."""
        self._count = part_of(self._limits.user_unacked_messages, shards)
        self._octets = part_of(self._limits.user_unacked_bytes, shards)
        for hand in self._hands.values():
            hand.count_limit, hand.octets_limit = self._count, self._octets

    def of(self, user: str) -> Hand | None:
        """That of a user, made on first use; None where there are no limits."""
        if self._count == self._octets == UNLIMITED:
            return None
        hand = self._hands.get(user)
        if hand is None:
            hand = self._hands[user] = Hand(user, self.asleep)
            hand.count_limit, hand.octets_limit = self._count, self._octets
        return hand

    def uses(self) -> Iterator[Use]:
        """How much of its limits each user uses."""
        for hand in list(self._hands.values()):
            if hand.count_limit != UNLIMITED:
                yield Use("unacked-messages", "user", hand.user, hand.count, hand.count_limit)
            if hand.octets_limit != UNLIMITED:
                yield Use("unacked-bytes", "user", hand.user, hand.octets, hand.octets_limit)

    def wake(self, wake: Callable[[Consumer], None]) -> bool:
        """Wake some who may have more now, if there are any; whether there were."""
        woken = False
        for hand in list(self.asleep):
            if hand.is_full():
                tell(hand)
                continue
            for consumer in list(islice(hand.sleepers, AT_ONCE)):
                del hand.sleepers[consumer]
                wake(consumer)
                woken = True
            if not hand.sleepers:
                del self.asleep[hand]
        return woken


def part_of(limit: int, shards: int) -> int:
    """What one of so many shards keeps of a limit."""
    if limit < 0:
        return UNLIMITED
    return max(limit // shards, 1) if limit else 0


def tell(hand: Hand) -> None:
    """Say once that consumers wait."""
    if not hand.told:
        hand.told = True
        log.warning("consumers wait, their user has in hand what it may", user=hand.user, messages=hand.count,
                    octets=hand.octets)  # fmt: skip
