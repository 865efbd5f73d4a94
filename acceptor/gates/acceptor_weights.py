"""How much of a queue's room is due to one acceptor, by what waits there (acceptor/gates/parts.py exchanges it)."""

from __future__ import annotations


class AcceptorWeights:
    """The fair share weights of acceptors at one queue: `own` is the last that was reported for this acceptor, `most`
    the largest of any acceptor, `total` the sum. All are 0 while nothing waits, or nothing is known.
    """

    __slots__ = ("most", "own", "total")

    def __init__(self) -> None:
        self.own = self.most = self.total = 0

    def share(self) -> float:
        """Return the part of what all acceptors admit that is due to this one. Somebody must wait."""
        return self.own / self.total

    def forget(self) -> None:
        """Forget all: the shard does not know them."""
        self.own = self.most = self.total = 0
