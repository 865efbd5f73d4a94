"""Gates of limited rates: buckets of tokens that all acceptors share, and who waits for more of them.

A bucket is kept as the time at which it is full again (the virtual scheduling of ITU-T I.371's generic cell rate
algorithm): what is published moves that time on, and there is room as long as it is no more than the burst ahead of
now. That number is all there is, so the acceptors have it in the gauges, and whoever publishes uses up the rate: one
producer alone gets all of it. Where several acceptors have somebody waiting they look in turn, a fixed time apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from acceptor.gate import UNLIMITED, Session, serve
from acceptor.metered import Metered
from acceptor.rate_parts import MOST_ACCEPTORS, RatePart
from penstock.memory.gauges import Gauges
from router.model.rates import RateLimit, limits_rates, rate_limits, rate_of
from router.model.records import Queue
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.permissions import Access

SECOND = 1_000_000_000
COUNT, OCTETS = 0, 1


class RateGate:
    """The gate of one limit. `clock` is the machine's monotonic clock, in seconds."""

    opens_with_time = True

    def __init__(
        self,
        limit: RateLimit,
        gauges: Gauges,
        clock: Callable[[], float],
        metered: Metered,
        part: RatePart | None = None,
    ) -> None:
        self.gauges = gauges
        self.part = part
        self.clock = clock
        self.metered = metered
        self.terms = None
        self.waiting: OrderedDict[Session, None] = OrderedDict()
        self.follow(limit)

    def follow(self, limit: RateLimit) -> None:
        self.limit = limit
        self.bucket = limit.bucket
        self.rates = limit.messages, limit.octets
        self.depths = self.depth(limit.messages), self.depth(limit.octets)
        self.ahead, self.octets_ahead = self.depths[COUNT] // 2, self.depths[OCTETS] // 2
        half = self.left(COUNT, self.ahead), self.left(OCTETS, self.octets_ahead)
        self.half = half if all(half) else None

    def __str__(self) -> str:
        return str(self.limit)

    def is_saturated(self) -> bool:
        """A rate is used up again and again: who waits is told when that lasts (`acceptor.metered`)."""
        return False

    def some_room(self) -> tuple[int, int]:
        """Half of the bucket as long as it is that full."""
        half, ahead = self.half, self.ahead
        if half is None or not self.gauges.bucket_is_full_in(self.bucket, self.now(), ahead, self.octets_ahead):
            return self.room()
        return half

    def room(self) -> tuple[int, int]:
        now = self.now()
        full_at, octets_full_at = self.gauges.bucket_full_at(self.bucket, now)
        count, octets = self.left(COUNT, full_at - now), self.left(OCTETS, octets_full_at - now)
        if self.part is not None and self.part.seen:
            count = min(count, self.part_of(COUNT, full_at - now))
            octets = min(octets, self.part_of(OCTETS, octets_full_at - now))
        if not count or not octets:
            self.metered.closed[self] = None
        return count, octets

    def left(self, which: int, ahead: int) -> int:
        """What there is room for in a bucket that is full again in so many nanoseconds."""
        rate = self.rates[which]
        free = min(self.depths[which] - ahead, self.depths[which])
        return (max(free, 0) * rate // SECOND) if rate else UNLIMITED

    def part_of(self, which: int, ahead: int) -> int:
        """Of that, what may go from here while others wait as well."""
        assert self.part is not None
        rate, depth = self.rates[which], self.depths[which]
        return max(self.part.free(which, depth - ahead, depth), 0) * rate // SECOND if rate else UNLIMITED

    def now(self) -> int:
        """Nanoseconds, to the microsecond."""
        return round(self.clock() * 1_000_000) * 1000

    def depth(self, rate: int) -> int:
        """Of a bucket, in nanoseconds: the burst, but never less than one."""
        return max(self.limit.burst_ms * 1_000_000, -(-SECOND // rate)) if rate else 0

    def admits(self, count: int, octets: int) -> bool:
        """Whether so much may go at once. More than a burst may once the bucket is full."""
        room, space = self.room()
        limit = self.limit
        most = self.depths[COUNT] * limit.messages // SECOND if limit.messages else UNLIMITED
        most_octets = self.depths[OCTETS] * limit.octets // SECOND if limit.octets else UNLIMITED
        if room >= min(count, most) and space >= min(octets, most_octets):
            return True
        self.metered.closed[self] = None
        return False

    def spend(self, count: int, octets: int, channel: object) -> None:
        """So much has gone, whoever it was from."""
        rate, octets_rate = self.rates
        self.gauges.bucket_spend(self.bucket, self.now(), count, rate, octets, octets_rate)
        if self.part is not None and self.part.seen:
            if rate:
                self.part.spend(COUNT, count * SECOND // rate, self.depths[COUNT])
            if octets_rate:
                self.part.spend(OCTETS, octets * SECOND // octets_rate, self.depths[OCTETS])

    def due(self) -> float:
        """In how many seconds there is room for a message, and it is this acceptor's turn."""
        now = self.clock()
        return self.metered.in_turn(now + self.missing()) - now

    def missing(self) -> float:
        """Seconds until there is room for a message."""
        now = self.now()
        waits = [0]
        for full_at, rate, depth in zip(
            self.gauges.bucket_full_at(self.bucket, now), self.rates, self.depths, strict=True
        ):
            if rate:
                waits.append(full_at - now - depth + SECOND // rate)
        return max(waits) / SECOND

    def seconds_for(self, count: int) -> float:
        """About how long so many messages take from now on."""
        return self.missing() + (count / self.limit.messages if self.limit.messages else 0.0)

    def serve(self) -> None:
        if self.part is None:
            serve(self)
            return
        self.look()
        serve(self)
        if not self.waiting:
            self.look()

    def look(self) -> None:
        """Say what waits here, and see which part of what has come is for it."""
        assert self.part is not None
        now = self.now()
        full_at, octets_full_at = self.gauges.bucket_full_at(self.bucket, now)
        free = self.depths[COUNT] - (full_at - now), self.depths[OCTETS] - (octets_full_at - now)
        self.part.look(self.bucket, now, len(self.waiting), (max(free[0], 0), max(free[1], 0)), self.depths)


class Rates:
    """The gates of an acceptor's limited rates, made when a route is made that they are on."""

    def __init__(
        self,
        topology: Topology,
        gauges: Gauges,
        clock: Callable[[], float],
        metered: Metered,
        index: int,
        acceptors: int,
    ) -> None:
        self.topology = topology
        self.index = index
        self.divides = 1 < acceptors <= MOST_ACCEPTORS
        self.gauges = gauges
        self.clock = clock
        self.active = False
        self.by_bucket: dict[int, RateGate] = {}
        self.metered = metered

    def of(self, access: Access, exchanges: Iterable[str], key: str, queues: Sequence[Queue]) -> tuple[RateGate, ...]:
        """The gates that a publish has to pass."""
        limits = [limit for queue in queues if (limit := rate_of(queue)) is not None]
        if self.active:
            limits += rate_limits(self.topology, access.vhost, exchanges, key, access.user)
        return tuple(self.gate(limit) for limit in limits)

    def gate(self, limit: RateLimit) -> RateGate:
        gate = self.by_bucket.get(limit.bucket)
        if gate is None:
            gate = self.by_bucket[limit.bucket] = self.new(limit)
        elif gate.limit != limit:
            gate.follow(limit)
        return gate

    def new(self, limit: RateLimit) -> RateGate:
        part = RatePart(self.gauges, self.index) if self.divides else None
        return RateGate(limit, self.gauges, self.clock, self.metered, part)

    def follow(self) -> None:
        """The topology has changed: routes are made anew, and with them the gates that are still on one."""
        self.active = any(limits_rates(policy) for policy in self.topology.all_policies())
        self.by_bucket = {bucket: gate for bucket, gate in self.by_bucket.items() if gate.waiting}
