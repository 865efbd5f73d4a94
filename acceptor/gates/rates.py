"""Gates of limited rates: token buckets that all acceptors share, and the channels that wait for tokens.

A bucket is stored as the time at which it is full again (the virtual scheduling of ITU-T I.371's generic cell rate
algorithm): each publish moves that time on, and there is room while it is no more than the burst ahead of now. A bucket
is just that number, so the acceptors keep it in the gauges, and any publish uses up the rate: one producer alone gets
all of it. Acceptors with waiting channels poll in turn, a fixed time apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from acceptor.gates.cause import NO_NUMBERS, HoldCause
from acceptor.gates.gate import UNLIMITED, WaitingChannel, serve
from acceptor.gates.metered import Metered
from acceptor.gates.rate_parts import MOST_ACCEPTORS, RatePart
from penstock.memory.gauges import Gauges
from router.model.rates import RateLimit, limits_rates, rate_limits, rate_of
from router.model.records import Queue
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access

SECOND = 1_000_000_000
COUNT, BYTES = 0, 1


class RateGate:
    """The gate of one limited rate. `clock` is the machine's monotonic clock, in seconds.

    `depths` are those of the buckets of messages and of bytes in nanoseconds, `half` is the room in half full ones.
    """

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
        self.waiting: OrderedDict[WaitingChannel, None] = OrderedDict()
        self.adopt(limit)

    def adopt(self, limit: RateLimit) -> None:
        """Adopt a limit, and derive the buckets' depths from it."""
        self.limit = limit
        self.bucket = limit.bucket
        self.rates = limit.messages, limit.nbytes
        self.depths = self.depth(limit.messages), self.depth(limit.nbytes)
        self.ahead, self.bytes_ahead = self.depths[COUNT] // 2, self.depths[BYTES] // 2
        half = self.room_of(COUNT, self.ahead), self.room_of(BYTES, self.bytes_ahead)
        self.half = half if all(half) else None

    def __str__(self) -> str:
        return str(self.limit)

    def describe(self) -> HoldCause:
        """Describe the limit."""
        limit = self.limit
        return HoldCause(
            "rate", str(self), str(self), "rate", sort=limit.sort, name=limit.name or limit.sort,
            numbers={**NO_NUMBERS, "max_rate": limit.messages, "max_rate_bytes": limit.nbytes},
        )  # fmt: skip

    def is_saturated(self) -> bool:
        """Never: a rate is used up again and again, and a channel is held only after a while
        (`acceptor.gates.metered`).
        """
        return False

    def some_room(self) -> tuple[int, int]:
        """Return the room in half of the bucket while it is that full; else `room`."""
        half, ahead = self.half, self.ahead
        if half is None or not self.gauges.bucket_is_full_in(self.bucket, self.now(), ahead, self.bytes_ahead):
            return self.room()
        return half

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present."""
        now = self.now()
        full_at, bytes_full_at = self.gauges.bucket_full_at(self.bucket, now)
        count, nbytes = self.room_of(COUNT, full_at - now), self.room_of(BYTES, bytes_full_at - now)
        if self.part is not None and self.part.seen:
            count = min(count, self.part_of(COUNT, full_at - now))
            nbytes = min(nbytes, self.part_of(BYTES, bytes_full_at - now))
        if not count or not nbytes:
            self.metered.closed[self] = None
        return count, nbytes

    def room_of(self, which: int, ahead: int) -> int:
        """Return the room in a bucket that is full again in `ahead` nanoseconds, in messages or bytes."""
        rate = self.rates[which]
        free = min(self.depths[which] - ahead, self.depths[which])
        return (max(free, 0) * rate // SECOND) if rate else UNLIMITED

    def part_of(self, which: int, ahead: int) -> int:
        """Return the part of `room_of` that is this acceptor's while channels wait at others as well."""
        assert self.part is not None
        rate, depth = self.rates[which], self.depths[which]
        return max(self.part.free(which, depth - ahead, depth), 0) * rate // SECOND if rate else UNLIMITED

    def now(self) -> int:
        """Return the time in nanoseconds, rounded to microseconds."""
        return round(self.clock() * 1_000_000) * 1000

    def depth(self, rate: int) -> int:
        """Return the depth of a bucket in nanoseconds: the burst, but never less than one message or byte takes."""
        return max(self.limit.burst_ms * 1_000_000, -(-SECOND // rate)) if rate else 0

    def admits(self, count: int, nbytes: int) -> bool:
        """Whether these messages and bytes may be sent at once. More than a burst may when the bucket is full."""
        room, space = self.room()
        limit = self.limit
        most = self.depths[COUNT] * limit.messages // SECOND if limit.messages else UNLIMITED
        most_bytes = self.depths[BYTES] * limit.nbytes // SECOND if limit.nbytes else UNLIMITED
        if room >= min(count, most) and space >= min(nbytes, most_bytes):
            return True
        self.metered.closed[self] = None
        return False

    def spend(self, count: int, nbytes: int, channel: object) -> None:
        """Charge published messages and bytes to the buckets, and to this acceptor's part of them."""
        rate, bytes_rate = self.rates
        self.gauges.bucket_spend(self.bucket, self.now(), count, rate, nbytes, bytes_rate)
        if self.part is not None and self.part.seen:
            if rate:
                self.part.spend(COUNT, count * SECOND // rate, self.depths[COUNT])
            if bytes_rate:
                self.part.spend(BYTES, nbytes * SECOND // bytes_rate, self.depths[BYTES])

    def due(self) -> float:
        """Return the seconds until there is room for a message and it is this acceptor's turn."""
        now = self.clock()
        return self.metered.in_turn(now + self.missing()) - now

    def missing(self) -> float:
        """Return the seconds until there is room for a message; at least 0."""
        now = self.now()
        waits = [0]
        for full_at, rate, depth in zip(
            self.gauges.bucket_full_at(self.bucket, now), self.rates, self.depths, strict=True
        ):
            if rate:
                waits.append(full_at - now - depth + SECOND // rate)
        return max(waits) / SECOND

    def resumes_in(self) -> float:
        """Return the approximate seconds until all publishes that wait have been admitted."""
        count = sum(channel.messages_parked() for channel in self.waiting)
        return self.missing() + (count / self.limit.messages if self.limit.messages else 0.0)

    def serve(self) -> None:
        """Admit waiting channels, as far as there are tokens for this acceptor."""
        if self.part is None:
            serve(self)
            return
        self.update_part()
        serve(self)
        if not self.waiting:
            self.update_part()

    def update_part(self) -> None:
        """Report how many channels wait here, and add this acceptor's part of the tokens that have come."""
        assert self.part is not None
        now = self.now()
        full_at, bytes_full_at = self.gauges.bucket_full_at(self.bucket, now)
        free = self.depths[COUNT] - (full_at - now), self.depths[BYTES] - (bytes_full_at - now)
        self.part.update(self.bucket, now, len(self.waiting), (max(free[0], 0), max(free[1], 0)), self.depths)


class Rates:
    """The gates of an acceptor's limited rates, by bucket, created with the first route through them.

    `active`: whether a policy limits rates; a queue's own declaration may besides.
    """

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
        """Return the gates that a publish must pass."""
        limits = [limit for queue in queues if (limit := rate_of(queue)) is not None]
        if self.active:
            limits += rate_limits(self.topology, access.vhost, exchanges, key, access.user)
        return tuple(self.gate(limit) for limit in limits)

    def gate(self, limit: RateLimit) -> RateGate:
        """Return the gate of a limit, with that limit's present values."""
        gate = self.by_bucket.get(limit.bucket)
        if gate is None:
            gate = self.by_bucket[limit.bucket] = self.new(limit)
        elif gate.limit != limit:
            gate.adopt(limit)
        return gate

    def new(self, limit: RateLimit) -> RateGate:
        """Return a new gate for a limit."""
        part = RatePart(self.gauges, self.index) if self.divides else None
        return RateGate(limit, self.gauges, self.clock, self.metered, part)

    def apply_topology(self) -> None:
        """The topology has changed: keep only gates with waiting channels; new routes create the others again."""
        self.active = any(limits_rates(policy) for policy in self.topology.all_policies())
        self.by_bucket = {bucket: gate for bucket, gate in self.by_bucket.items() if gate.waiting}
