"""Limits of each user's unacked messages on this shard, over all acceptors (`limits.user_unacked_…`).

Each shard has an equal part of a user's limit, at least one message. Where it is used up, consumers fall asleep. Once
fewer messages are unacked some are woken, a few at a time since thousands may sleep, until the limit is reached again
or none sleeps.
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
"""Sleepers of a user that are woken before the limit is checked again."""

log = get_logger()


class Hands:
    """The hands of all users. `asleep` are those with waiting consumers."""

    def __init__(self, limits: LimitSettings, shards: int) -> None:
        self._limits = limits
        self._hands: WeakValueDictionary[str, Hand] = WeakValueDictionary()
        self.asleep: dict[Hand, None] = {}
        self.share(shards)

    def share(self, shards: int) -> None:
        """Set the number of shards that share the limits."""
        self._count = part_of(self._limits.user_unacked_messages, shards)
        self._nbytes = part_of(self._limits.user_unacked_bytes, shards)
        for hand in self._hands.values():
            hand.count_limit, hand.bytes_limit = self._count, self._nbytes

    def of(self, user: str) -> Hand | None:
        """The hand of a user, made on first use; None where there are no limits."""
        if self._count == self._nbytes == UNLIMITED:
            return None
        hand = self._hands.get(user)
        if hand is None:
            hand = self._hands[user] = Hand(user, self.asleep)
            hand.count_limit, hand.bytes_limit = self._count, self._nbytes
        return hand

    def uses(self) -> Iterator[Use]:
        """How much of its limits each user uses."""
        for hand in list(self._hands.values()):
            if hand.count_limit != UNLIMITED:
                yield Use("unacked-messages", "user", hand.user, hand.count, hand.count_limit)
            if hand.bytes_limit != UNLIMITED:
                yield Use("unacked-bytes", "user", hand.user, hand.nbytes, hand.bytes_limit)

    def wake(self, wake: Callable[[Consumer], None]) -> bool:
        """Wake some consumers of users that are below their limits; return whether there were any."""
        woken = False
        for hand in list(self.asleep):
            if hand.is_full():
                log_waiting(hand)
                continue
            for consumer in list(islice(hand.sleepers, AT_ONCE)):
                del hand.sleepers[consumer]
                wake(consumer)
                woken = True
            if not hand.sleepers:
                del self.asleep[hand]
        return woken


def part_of(limit: int, shards: int) -> int:
    """The part of a limit that one of `shards` shards has."""
    if limit < 0:
        return UNLIMITED
    return max(limit // shards, 1) if limit else 0


def log_waiting(hand: Hand) -> None:
    """Log once that consumers of a user wait."""
    if not hand.reported:
        hand.reported = True
        log.warning("consumers wait, their user is at its unacked limit", user=hand.user, messages=hand.count,
                    bytes=hand.nbytes)  # fmt: skip
