"""Gates before several queues: for limits over the queues of an exchange, a routing key, a user, a vhost or the node.

No single process decides when such a limit is reached. Each acceptor adds up the gauges of the queues, and claims the
messages that it sends (acceptor/gates/claims.py), so that all together exceed the stop mark by one message at most. A
user's queues are those that its publishes go to; each acceptor enters a new one in the gauges before it sends any of
them. Without a policy that asks for it there are no such gates.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from acceptor.gates.cause import HoldCause
from acceptor.gates.claims import NO_PLACE, Claim, Claims
from acceptor.gates.gate import SHARE, UNLIMITED, Gate, WaitingChannel
from acceptor.gates.move_depths import MoveDepths
from acceptor.gates.queue_gate import QueueGate, describe_depth
from acceptor.gates.terms import Terms, terms_of
from penstock.limits.watermarks import FlowDefaults, QueueLimits
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.telemetry.schema import Cause
from router.model.policy_keys import EXCHANGE, NODE, ROUTING_KEY, SHARED, USER, VHOST
from router.model.shared_limits import SharedLimit, counted, queues_of, same_limit, says_something, shared_limits
from router.model.topology import Queue, Topology

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access

log = get_logger()

COLUMNS: dict[str, Cause] = {
    EXCHANGE: "exchange", ROUTING_KEY: "pattern", USER: "user", VHOST: "vhost", NODE: "node",
}  # fmt: skip
"""The cause in telemetry, by the sort of a limit over several queues."""
NO_QUEUE = 0
"""Ids of queues count from 1."""

Depths = tuple[int, int, int, int]


class Pool(QueueGate):
    """The gate of one limit over several queues. `queues` finds its queues after a change of the topology; `moving` are
    those that are `away` then, on their way to another shard.

    `bound` is how far the depth may be above the stop marks, in messages and bytes. Where the limit is about a user,
    `user` is its key in the gauges (else 0), `ids` are its queues seen here, and `seen` is the gauges' count of
    changes when they were last read. `read` are the depths as of the loop's turn `turn`; in the turn `tried` less could
    be claimed than was wanted.
    """

    __slots__ = (
        "away", "bound", "claim", "epoch", "ids", "limit", "members", "moving", "queues", "read", "saturated", "seen",
        "slots", "stale", "tried", "turn", "turns", "user",
    )  # fmt: skip

    def __init__(
        self,
        gauges: Gauges,
        acceptors: int,
        limit: SharedLimit,
        queues: Callable[[Pool], Iterable[Queue]],
        turns: Callable[[], int],
        away: MoveDepths,
        claims: Claims,
    ) -> None:
        terms = terms_of(limit.throttle, limit.hold)
        super().__init__(gauges, acceptors, NO_QUEUE, 0, limit.vhost, limit.name, _limits(limit), terms)
        self.limit = limit
        self.bound = limit.marks.shared_bound()
        self.queues = queues
        self.turns = turns
        self.slots = array("q")
        self.away = away
        self.moving: list[Queue] = []
        self.members: frozenset[int] = frozenset()
        self.stale = True
        self.ids: set[int] = set()
        self.user = limit.user if limit.sort == USER else 0
        self.seen = -1
        self.saturated = False
        self.epoch = 0
        self.turn = self.tried = -1
        self.read = (0, 0, 0, 0)
        self.claim = Claim(claims, self)
        self.claim.at(claims.place_of(repr(limit.key)))

    def __str__(self) -> str:
        how = "all of" if self.limit.shared == SHARED[0] else "the deepest of"
        depth = self.depth()
        return f"{self.limit}, {how} {len(self.members)} queues: {describe_depth(self.limits.marks, *depth)}"

    def describe(self) -> HoldCause:
        """Describe the limit as the depth of its queues stands against its marks."""
        _, depth = self.column_and_depth()
        return HoldCause(
            "limit", str(self), str(self.limit), COLUMNS[self.limit.sort], sort=self.limit.sort, name=self.name,
            depth=depth, numbers=self.numbers(),
        )  # fmt: skip

    def depth(self) -> tuple[int, int]:
        """Return the depth that the limit counts, in messages and bytes: added up once a turn of the loop."""
        if self.turn != self.turns():
            self.find_members()
            self.turn = self.turns()
            self.read = self.gauges.depths(self.slots)
            for queue in self.moving:
                self.read = _together(self.read, *self.away.depth(queue))
        return counted(self.limit.shared, self.read)

    def refresh(self) -> None:
        """Have the depth added up anew, and room claimed anew, at the next request."""
        self.turn = self.tried = -1

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present."""
        return self.room_for(1)

    some_room = room

    def room_for(self, least: int) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present, claiming more if there are less than `least`."""
        if self.closed:
            return UNLIMITED, UNLIMITED
        if self.claim.place == NO_PLACE:
            return super().room()
        count, nbytes = self.free()
        if (count < least or nbytes <= 0) and self.tried != self.turns():
            self.claim_part()
            count, nbytes = self.free()
            if count < least or nbytes <= 0:
                self.tried = self.turns()
        return max(count, 0), max(nbytes, 0)

    def free(self) -> tuple[int, int]:
        """Return the claimed messages and bytes that are not in flight yet."""
        count, nbytes = self.claim.free()
        marks = self.marks
        return count if marks.stop_count else UNLIMITED, nbytes if marks.stop_bytes else UNLIMITED

    def claim_part(self) -> None:
        """Claim this acceptor's equal part of the room; where there is plenty, by the depth read last."""
        parts = self.parts()
        if self.turn != self.turns() and min(parts) < SHARE:
            self.depth()
            parts = self.parts()
        count, nbytes = max(parts[0] - self.in_flight, 0), max(parts[1] - self.in_flight_bytes, 0)
        self.ask(count, nbytes)

    def ask(self, count: int, nbytes: int) -> None:
        """Claim messages and bytes, each only if there is a mark in them."""
        marks = self.marks
        self.claim.ask(count if marks.stop_count else 0, nbytes if marks.stop_bytes else 0, self.room_now)

    def parts(self) -> tuple[int, int]:
        """Return the messages and bytes that this acceptor may have in flight in all."""
        count, nbytes = self.room_at(*counted(self.limit.shared, self.read))
        return max(count // self.acceptors, 1), max(nbytes // self.acceptors, 1)

    def room_now(self) -> tuple[int, int]:
        """Return the room for all acceptors by the present depth, in messages and bytes."""
        self.turn = -1
        depth = self.depth()
        return (0, 0) if self.is_saturated() else self.room_at(*depth)

    def room_at(self, depth: int, depth_bytes: int) -> tuple[int, int]:
        """Return the room for all acceptors at that depth, in messages and bytes."""
        marks, (over, over_bytes) = self.marks, self.bound
        count = max(marks.stop_count + over - depth, 0) if marks.stop_count else UNLIMITED
        nbytes = max(marks.stop_bytes + over_bytes - depth_bytes, 0) if marks.stop_bytes else UNLIMITED
        return count, nbytes

    def admits(self, count: int, nbytes: int) -> bool:
        """Whether these messages and bytes may be sent at once; if so, claim them."""
        if self.closed:
            return True
        if self.claim.place == NO_PLACE:
            return super().admits(count, nbytes)
        self.ask(count, nbytes)
        room, space = self.free()
        if (count <= room and nbytes <= space) or (not self.is_saturated() and self.is_too_much(count, nbytes)):
            return True
        self.claim.settle()  # a part of an amount that is needed at once is of no use here, but may be to others
        return False

    def arrived(self, count: int, nbytes: int) -> None:
        """A shard has reported messages as safe: reduce the claim."""
        super().arrived(count, nbytes)
        self.tried = -1
        self.claim.settle()

    def close(self) -> None:
        """Retire the gate of a limit that no policy asks for any more."""
        super().close()
        self.claim.drop()

    def stands_aside(self) -> bool:
        return self.closed

    def calm_at(self) -> None:
        return None  # the gauges have no depth of several queues

    def flow(self) -> tuple[bool, bool, int, int]:
        return self.closed, self.is_saturated(), *self.depth()

    def find_members(self) -> None:
        """Bring the slots of its queues up to date: `members` has those of all, `slots` those of queues that do not
        move.
        """
        if self.user and self.seen != (changed := self.gauges.users_changed()):
            self.seen, self.stale = changed, True
        if self.stale:
            self.stale = False
            queues = list(self.queues(self))
            self.moving = [queue for queue in queues if queue.queue_id in self.away]
            self.slots = array("q", [queue.slot for queue in queues if queue.queue_id not in self.away])
            self.members = frozenset(queue.slot for queue in queues)

    def is_saturated(self) -> bool:
        """Whether the limit is reached: from its stop mark until the depth is back at the resume mark."""
        if self.closed:
            return False
        saturated = self.limits.marks.saturated(self.saturated, *self.depth())
        self.epoch += saturated != self.saturated
        self.saturated = saturated
        return saturated

    def flow_epoch(self) -> int:
        """Return the number of this acceptor's present stop or resume of the limit."""
        return self.epoch

    def adopt(self, limit: SharedLimit) -> bool:
        """Adopt the present limit and queues. Return whether the marks have changed."""
        self.refresh()
        self.stale = True
        changed = limit.marks != self.limits.marks
        self.limit = limit
        self.set_limits(_limits(limit))
        self.bound = limit.marks.shared_bound()
        self.terms = terms_of(limit.throttle, limit.hold)
        return changed


def _together(read: Depths, count: int, nbytes: int) -> Depths:
    """Add the depth of one more queue to the result of `Gauges.depths`."""
    return read[0] + count, read[1] + nbytes, max(read[2], count), max(read[3], nbytes)


class MultiplyingGate:
    """A pool's gate for publishes that go to several of its queues: each message counts `times` in the pool."""

    __slots__ = ("pool", "times", "waiting")

    opens_with_time = False

    def __init__(self, pool: QueueGate, times: int) -> None:
        self.pool = pool
        self.times = times
        self.waiting = pool.waiting

    def __str__(self) -> str:
        return str(self.pool)

    def describe(self) -> HoldCause:
        """Describe the limit itself."""
        return self.pool.describe()

    @property
    def terms(self) -> Terms:
        return self.pool.terms

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present, each counted `times`."""
        count, nbytes = self.pool.room_for(self.times)
        if count < self.times and not self.pool.in_flight:
            return min(count, 1), nbytes  # a message may count more than there is ever room for: one by one
        return count // self.times, nbytes // self.times

    some_room = room

    def admits(self, count: int, nbytes: int) -> bool:
        return self.pool.admits(count * self.times, nbytes * self.times)

    def is_saturated(self) -> bool:
        return self.pool.is_saturated()

    def serve(self) -> None:
        self.pool.serve()


def itself(gate: Gate) -> Gate:
    """Return the pool of a manifold; any other gate itself."""
    return gate.pool if isinstance(gate, MultiplyingGate) else gate


class Pools:
    """The pools of an acceptor, created with the first route through them. `active`: whether a policy asks for any."""

    def __init__(
        self,
        topology: Topology,
        gauges: Gauges,
        acceptors: int,
        defaults: FlowDefaults,
        turns: Callable[[], int],
        away: MoveDepths,
        claims: Claims,
    ) -> None:
        self.topology = topology
        self.gauges = gauges
        self.acceptors = acceptors
        self.defaults = defaults
        self.turns = turns
        self.away = away
        self.claims = claims
        self.active = False
        self.reported_full = False
        self.by_limit: dict[tuple[str, ...], Pool] = {}

    def of(self, access: Access, exchanges: Iterable[str], key: str, queues: Sequence[Queue]) -> list[Pool]:
        """Return the pools that a publish must pass."""
        found = []
        for limit in shared_limits(self.topology, access.vhost, exchanges, key, access.user, self.defaults):
            pool = self.by_limit.get(limit.key)
            if pool is None:
                pool = self.by_limit[limit.key] = Pool(
                    self.gauges, self.acceptors, limit, self.queues_of, self.turns, self.away, self.claims
                )
            if pool.user:
                self.add_queues(pool, queues)
            found.append(pool)
        return found

    def add_queues(self, pool: Pool, queues: Sequence[Queue]) -> None:
        """Record that publishes of a user go to these queues, here and in the gauges."""
        new = {queue.queue_id for queue in queues} - pool.ids
        if not new:
            return
        pool.ids |= new
        pool.refresh()
        pool.stale = True
        for id in new:
            if not self.gauges.user_queue_add(pool.user, id) and not self.reported_full:
                self.reported_full = True
                log.warning("no place for more queues of users: acceptors count what is beyond for themselves")

    def queues_of(self, pool: Pool) -> list[Queue]:
        """Return the queues that a pool's limit is over; of a user, those that any acceptor has seen it publish to."""
        if pool.limit.sort != USER:
            return queues_of(pool.limit, self.topology)
        members = self.gauges.user_queues(pool.user)
        ids = pool.ids.union(members)
        queues = [queue for id in ids if (queue := self.topology.queue_by_id(id)) is not None]
        known = {queue.queue_id for queue in queues}
        pool.ids &= known
        if len(known) < len(ids):
            newest = max(self.topology.queues(), key=_id, default=None)
            for id in ids.intersection(members) - known:
                if newest is not None and id < newest.queue_id:  # deleted, not one that the replica lacks yet
                    self.gauges.user_queue_remove(pool.user, id)
        return queues

    def closed(self) -> list[Pool]:
        """Return the pools with waiting or warned channels or withheld confirms, to be polled: no event announces that
        a limit over several queues is reached, or has room again.
        """
        found = [pool for pool in self.by_limit.values() if pool.waiting or pool.withheld or pool.warned]
        for pool in found:
            pool.refresh()
        return found

    def apply_topology(self, freed: dict[WaitingChannel, None]) -> list[Pool]:
        """Adopt a changed topology. Return the pools whose marks have changed; channels that wait at a pool that is
        gone are `freed`.
        """
        self.active = any(says_something(policy) for policy in self.topology.all_policies())
        changed = []
        for key, pool in list(self.by_limit.items()):
            limit = same_limit(pool.limit, self.topology, self.defaults) if self.active else None
            if limit is None:
                del self.by_limit[key]
                pool.close()
                freed |= pool.waiting
                continue
            if pool.adopt(limit):
                changed.append(pool)
        return changed


def _id(queue: Queue) -> int:
    return queue.queue_id


def _limits(limit: SharedLimit) -> QueueLimits:
    return QueueLimits(None, None, "flow", limit.marks)
