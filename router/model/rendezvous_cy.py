# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The choice of one of several members for a key, in proportion to their weights: weighted rendezvous hashing.

Every member has a score for every key, -ln(u) / weight, where u in (0, 1) comes from the hashes of both; the least
wins (Thaler and Ravishankar, 1998; with weights, Schindelhauer and Schomaker, 2005). Such scores are independent
exponential variables, and the least of some with rates w1, w2, ... is the first with probability w1 / (w1 + w2 + ...):
shares are in proportion to weights, and as even as independent draws are. A score depends on no other member. So a
member that goes gives its keys to all others, between which none moves; one that comes takes its share from all others;
and neither the order of members nor their history counts. A weight is a factor, not a number of points: no weight costs
memory or time.

Complexity: O(n) for n members, some 10 ns each. A ring of points (Karger and others, 1997) is searched in O(log n), but
with p points a member its shares deviate by 1 / sqrt(p): shares within 2 % need 2,500 points for each unit of weight.
Jump hashing (Lamping and Veach, 2014) needs no memory, but only the member that came last can go without moving others'
keys.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from math import log

    # Multipliers of the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), those of Stafford's variant 13.
    C_FIRST = 0xBF58476D1CE4E5B9
    C_SECOND = 0x94D049BB133111EB
    C_MASK = (1 << 64) - 1


class Member:
    """A member: its hash (`seed`), its weight, and its index in the list of members."""

    def __init__(self, name: Any, seed: int, weight: float, at: int) -> None:
        self.name = name
        self.seed = seed
        self.weight = weight
        self.at = at


class Rendezvous:
    """Members by name. Names can be compared: the smaller one wins if scores are equal."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.known: dict[Any, Member] = {}

    def put(self, name: Any, seed: int, weight: float) -> None:
        """Add a member, whose hash has 64 bits, or change its weight, which is above 0."""
        member = self.known.get(name)
        if member is None:
            member = self.known[name] = Member(name, seed, weight, len(self.members))
            self.members.append(member)
        member.weight = weight

    def remove(self, name: Any) -> None:
        """Remove a member that is there."""
        member = self.known.pop(name)
        last = self.members.pop()
        if last is not member:
            self.members[member.at] = last
            last.at = member.at

    def choose(self, key: int) -> Any:
        """Return the name of the member for a key, a hash of 64 bits; None if there is no member."""
        best, least = None, 0.0
        for member in self.members:
            score = score_of(mixed(key ^ member.seed), member.weight)
            if best is None or score < least or (score == least and member.name < best.name):
                best, least = member, score
        return None if best is None else best.name


def mixed(bits: int) -> int:
    """Return 64 bits of which each depends on all the given ones."""
    bits = ((bits ^ (bits >> 30)) * C_FIRST) & C_MASK
    bits = ((bits ^ (bits >> 27)) * C_SECOND) & C_MASK
    return bits ^ (bits >> 31)


def score_of(bits: int, weight: float) -> float:
    """Return the score that 64 mixed bits give to a member of that weight."""
    return -log(((bits >> 11) + 0.5) / 9007199254740992.0) / weight
