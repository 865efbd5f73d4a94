"""Claims of room that all acceptors share: each message is claimed in the gauges before it is sent.

The depth that acceptors read lacks messages in flight. So an acceptor first writes into the gauges how much it has in
flight and how much more it wants to send, and only then reads the claims of the others, and the depth; it withdraws the
part for which there is no room. Of two that do so at the same time at least one sees the other, so together they never
claim more than there is room for. A message stays claimed until its shard has reported it as safe, when it is in the
depth.

The claims of a dead acceptor stay until all shards are up at its successor: by then they have received its messages, or
have dropped them.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger

log = get_logger()

NO_PLACE = -1


class Counted(Protocol):
    """A gate whose messages are claimed, with the messages and bytes that it has in flight."""

    in_flight: int
    in_flight_bytes: int


class Claims:
    """All claims of one incarnation of an acceptor; `open` are those that may exceed the messages in flight."""

    def __init__(self, gauges: Gauges, acceptor: int, incarnation: int) -> None:
        self.gauges = gauges
        self.acceptor = acceptor
        self.incarnation = incarnation
        self.open: dict[Claim, None] = {}
        self.succeeds = incarnation > 1
        self.reported_full = False
        gauges.claims_clear(acceptor, incarnation)

    def place_of(self, name: str) -> int:
        """Return the place in the gauges for the claims of that name, by all acceptors; `NO_PLACE` if there is none."""
        nbytes = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        place = self.gauges.claim_place(int.from_bytes(nbytes, "little") | 1)
        if place == NO_PLACE and not self.reported_full:
            self.reported_full = True
            log.warning("no place to count what is under way: acceptors share room by what each knows", name=name)
        return place

    def settle(self) -> None:
        """At the end of a turn: free everything that was claimed and not sent."""
        claims, self.open = self.open, {}
        for claim in claims:
            claim.settle()

    def succeed(self) -> None:
        """Clear the claims of the predecessor: it is dead, and no shard accepts messages of it any more."""
        if self.succeeds:
            self.succeeds = False
            self.gauges.claims_clear(self.acceptor, self.incarnation - 1)


class Claim:
    """An acceptor's claim in one place, in messages and bytes, those in flight included. Without a `place` it claims
    nothing.
    """

    __slots__ = ("claims", "count", "counted", "nbytes", "place")

    def __init__(self, claims: Claims, counted: Counted) -> None:
        self.claims = claims
        self.counted = counted
        self.place = NO_PLACE
        self.count = 0
        self.nbytes = 0

    def at(self, place: int) -> None:
        """Move the claim to that place of the gauges."""
        if place != self.place:
            self.drop()
            self.place = place
            self.settle()

    def free(self) -> tuple[int, int]:
        """Return the messages and bytes that are claimed and not in flight; below 0 where more was sent."""
        return self.count - self.counted.in_flight, self.nbytes - self.counted.in_flight_bytes

    def ask(self, count: int, nbytes: int, left: Callable[[], tuple[int, int]]) -> None:
        """Claim further messages and bytes as far as there is room. `left` returns the room by the depth, which
        messages in flight and the claims of others reduce.
        """
        flying, flying_bytes = self.counted.in_flight, self.counted.in_flight_bytes
        others, others_bytes = self._write(flying + count, flying_bytes + nbytes)
        room, space = left()
        granted = max(min(count, room - flying - others), 0)
        granted_bytes = max(min(nbytes, space - flying_bytes - others_bytes), 0)
        if (granted, granted_bytes) != (count, nbytes):
            self._write(flying + granted, flying_bytes + granted_bytes)
        self.claims.open[self] = None

    def settle(self) -> None:
        """Reduce the claim to the messages in flight."""
        counted = self.counted
        if self.place != NO_PLACE and (self.count, self.nbytes) != (counted.in_flight, counted.in_flight_bytes):
            self._write(counted.in_flight, counted.in_flight_bytes)

    def drop(self) -> None:
        """Give the claim and its place up."""
        if self.place != NO_PLACE:
            self._write(0, 0)
            self.place = NO_PLACE

    def _write(self, count: int, nbytes: int) -> tuple[int, int]:
        self.count, self.nbytes = count, nbytes
        claims = self.claims
        return claims.gauges.claim(self.place, claims.acceptor, claims.incarnation, count, nbytes)
