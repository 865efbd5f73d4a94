"""What all acceptors together have under way of something, each message claimed before it goes.

The depth that acceptors read lacks what is under way. So an acceptor writes into the gauges what it has under way and
what more it wants to send, and only then reads what the others have written, and the depth; what it is not granted of
that it takes back. Of two that do so at the same time at least one sees the other: together they never claim more than
there is room for. What is under way is claimed until its shard has said that it is in the depth.

What a dead acceptor had under way stays claimed until its successor has met all shards: by then they have taken that
in, or have dropped it.
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
    """Whose messages are claimed: what it has under way."""

    in_flight: int
    in_flight_bytes: int


class Claims:
    """All claims of one life of an acceptor; `open` are those that are of more than what is under way."""

    def __init__(self, gauges: Gauges, acceptor: int, incarnation: int) -> None:
        self.gauges = gauges
        self.acceptor = acceptor
        self.incarnation = incarnation
        self.open: dict[Claim, None] = {}
        self.succeeds = incarnation > 1
        self.told_full = False
        gauges.claims_clear(acceptor, incarnation)

    def place_of(self, name: str) -> int:
        """Where what all acceptors know by a name is counted; `NO_PLACE` if there is none left."""
        octets = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        place = self.gauges.claim_place(int.from_bytes(octets, "little") | 1)
        if place == NO_PLACE and not self.told_full:
            self.told_full = True
            log.warning("no place to count what is under way: acceptors share room by what each knows", name=name)
        return place

    def settle(self) -> None:
        """Nothing more goes in this turn: what was claimed and is not under way is free."""
        claims, self.open = self.open, {}
        for claim in claims:
            claim.settle()

    def succeed(self) -> None:
        """The predecessor is dead, and no shard will take in anything of it any more."""
        if self.succeeds:
            self.succeeds = False
            self.gauges.claims_clear(self.acceptor, self.incarnation - 1)


class Claim:
    """What an acceptor claims of one thing, in messages and octets, what is under way included. Without a `place` it
    claims nothing.
    """

    __slots__ = ("claims", "count", "counted", "octets", "place")

    def __init__(self, claims: Claims, counted: Counted) -> None:
        self.claims = claims
        self.counted = counted
        self.place = NO_PLACE
        self.count = 0
        self.octets = 0

    def at(self, place: int) -> None:
        """What is under way counts in that place from now on."""
        if place != self.place:
            self.drop()
            self.place = place
            self.settle()

    def free(self) -> tuple[int, int]:
        """How many messages and octets may go of what is claimed; less than nothing where more went."""
        return self.count - self.counted.in_flight, self.octets - self.counted.in_flight_bytes

    def ask(self, count: int, octets: int, left: Callable[[], tuple[int, int]]) -> None:
        """Claim so much more, as far as there is room: `left` says how much there was before anything was under way."""
        flying, flying_octets = self.counted.in_flight, self.counted.in_flight_bytes
        others, others_octets = self._write(flying + count, flying_octets + octets)
        room, space = left()
        granted = max(min(count, room - flying - others), 0)
        granted_octets = max(min(octets, space - flying_octets - others_octets), 0)
        if (granted, granted_octets) != (count, octets):
            self._write(flying + granted, flying_octets + granted_octets)
        self.claims.open[self] = None

    def settle(self) -> None:
        """Only what is under way is claimed."""
        counted = self.counted
        if self.place != NO_PLACE and (self.count, self.octets) != (counted.in_flight, counted.in_flight_bytes):
            self._write(counted.in_flight, counted.in_flight_bytes)

    def drop(self) -> None:
        """It does not count any more."""
        if self.place != NO_PLACE:
            self._write(0, 0)
            self.place = NO_PLACE

    def _write(self, count: int, octets: int) -> tuple[int, int]:
        self.count, self.octets = count, octets
        claims = self.claims
        return claims.gauges.claim(self.place, claims.acceptor, claims.incarnation, count, octets)
