"""One lease: the unacked messages that a consumer with `x-lease` leaves when it goes (see `shard.serving.leases`)."""

from __future__ import annotations

from penstock.batch.ranges_cy import RangeSet
from shard.contents.queue_cy import NEVER
from shard.queue.consumer_cy import Consumer
from shard.store.stored import pack_held


class Lease:
    """`held` are its messages while no consumer has them, until `until`; otherwise `consumer` has them. `lasts` is how
    long a lease outlives its consumer. Times are in microseconds. An `empty` lease never held a message but exists all
    the same.
    """

    __slots__ = ("consumer", "empty", "held", "id", "lasts", "until")

    def __init__(self, id: str, lasts: int) -> None:
        self.id = id
        self.lasts = lasts
        self.until = NEVER
        self.held = RangeSet()
        self.empty = False
        self.consumer: Consumer | None = None

    def record(self) -> bytes:
        """The lease as the store has it."""
        return pack_held(self.lasts, self.until, self.held.ranges())


def next_expiry(leases: dict[str, Lease]) -> int:
    """When the first lease expires; NEVER if none does."""
    return min((lease.until for lease in leases.values()), default=NEVER)


def first_held(leases: dict[str, Lease]) -> list[int]:
    """The lowest sequence number that each lease holds."""
    return [lease.held.first() for lease in leases.values() if lease.held]
