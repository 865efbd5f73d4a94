# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What all consumers of a connection may be sent together: their socket is one; and those of a user
(`shard.queue.lending`).

      open ──(so much is under way)──▶ shut: who would be next sleeps here ──(half of it has arrived)──▶ open: they wake

What is under way to a consumer that leaves has room again at once: nobody would say that it has arrived.
"""

from __future__ import annotations

from typing import Any


class Outlet:
    """`window` is what may still be sent of `lent`, octets; to each consumer `of_consumer` may be under way at most.

    What is lent comes from the share of the user when it is needed, up to `octets`, and for a message that is larger
    than the window.
    """

    def __init__(self, share: Any, octets: int, of_consumer: int) -> None:
        self.share = share
        self.octets = octets
        self.of_consumer = of_consumer
        self.window = 0
        self.lent = 0
        self.sleepers: dict[Any, None] = {}
        share.outlets.add(self)

    def __del__(self) -> None:
        self.share.take_back(self, self.lent)

    def overdraw(self) -> None:
        """A message was larger than the window."""
        self.share.lend(self, -self.window)

    def may_send(self, consumer: Any) -> bool:
        """Whether more could be borrowed, the window being used up; if not, a consumer sleeps."""
        if self.lent < self.octets and self.share.borrow(self):
            return True
        self.sleepers[consumer] = None
        return False

    def returns(self, octets: int) -> None:
        """So much has arrived, or nobody will say so."""
        self.window += octets
        self.share.restless = True
        if self.lent > self.octets:
            self.share.take_back(self, min(self.lent - self.octets, self.window))

    def leaves(self, consumer: Any, window: int) -> None:
        """A consumer is gone, or gets nothing more; `window` is what it may still be sent."""
        self.sleepers.pop(consumer, None)
        self.returns(self.of_consumer - window)

    def woken(self) -> list[Any]:
        """Those who need not sleep any more: here, or where their users had no room."""
        woken = []
        if self.sleepers and self.window * 2 >= self.lent:
            woken = list(self.sleepers)
            self.sleepers.clear()
        if self.share.lending.hungry:
            woken += self.share.lending.woken(self)
        return woken
