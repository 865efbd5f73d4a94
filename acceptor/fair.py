"""Whose turn it is at a gate: surplus round robin (Adiseshu, Parulkar and Varghese, 1996).

That is deficit round robin in which a share may take more than it is due and pays for it in its next turns, for a
session sends whole runs. Sessions that are served as one, because they are of one user or publish with one routing key,
make a share; without such a policy each session is a share of its own. A share gets as much as its weight says, that
of its user by policy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from router.policies import policy_for
from router.policy_keys import FAIR_BY, USER, WEIGHT
from router.topology import Topology

if TYPE_CHECKING:
    from acceptor.inlet import Session
    from acceptor.permissions import Access

BY_SESSION, BY_USER, BY_KEY = FAIR_BY
# A share owes no more than so many turns: one message may be larger than them all.
OWED_TURNS = 64


class Share:
    """Sessions that are served as one. `surplus` is what is left to them of their turns, below 0 what they owe."""

    __slots__ = ("key", "sessions", "surplus", "weight")

    def __init__(self, key: Hashable, weight: int) -> None:
        self.key = key
        self.weight = weight
        self.surplus = 0
        self.sessions: OrderedDict[Session, None] = OrderedDict()


class FairLine(OrderedDict["Session", None]):
    """Sessions in the order in which they began to wait, and their shares in the order of their turns.

    `first` goes before everybody: a transaction needs all its room at once.
    """

    def __init__(self, by: str = BY_SESSION) -> None:
        super().__init__()
        self.by = by
        self.first: Session | None = None
        self.weight = 0
        self._of: dict[Session, Share] = {}
        self._shares: OrderedDict[Hashable, Share] = OrderedDict()
        self._serving: Share | None = None

    def __setitem__(self, session: Session, value: None) -> None:
        super().__setitem__(session, value)
        if session in self._of:
            return
        key, weight = session.share(self.by)
        share = self._shares.get(key)
        if share is None:
            serving = self._serving
            share = serving if serving is not None and serving.key == key else Share(key, weight)
            self._shares[key] = share
            self.weight += share.weight
        share.sessions[session] = None
        self._of[session] = share

    def pop(self, session: Session, default: None = None) -> None:  # type: ignore[override]
        super().pop(session, None)
        share = self._of.pop(session, None)
        if session is self.first:
            self.first = None
        if share is not None:
            del share.sessions[session]
            if not share.sessions:
                del self._shares[share.key]
                self.weight -= share.weight

    def move_to_end(self, session: Session, last: bool = True) -> None:
        super().move_to_end(session, last)
        if not last:
            self.first = session

    def begin_turn(self, quantum: int) -> Share:
        """The share whose turn it is, with what that brings; its next turn comes after those of all others."""
        share = next(iter(self._shares.values()))
        self._shares.move_to_end(share.key)
        share.surplus += quantum * share.weight
        self._serving = share
        return share

    def end_turn(self, quantum: int) -> None:
        share, self._serving = self._serving, None
        assert share is not None
        share.surplus = max(share.surplus, -OWED_TURNS * quantum * share.weight)

    def shared_by(self, by: str) -> FairLine:
        """The same sessions, in shares of another kind."""
        line = FairLine(by)
        for session in self:
            line[session] = None
        line.first = self.first
        return line


class Weights:
    """The weights of users, by policy; 1 unless one says otherwise."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.known: dict[tuple[str, str], int] = {}
        self.active = False

    def follow(self) -> None:
        """The topology has changed."""
        self.known.clear()
        self.active = any(WEIGHT in policy.definition for policy in self.topology.all_policies())

    def of(self, access: Access) -> int:
        if not self.active:
            return 1
        whose = access.vhost, access.user
        weight = self.known.get(whose)
        if weight is None:
            policy = policy_for(self.topology, access.vhost, USER, access.user)
            weight = self.known[whose] = int(policy.definition.get(WEIGHT, 1)) if policy else 1
        return weight
