# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes that all consumers of a connection may be sent together, as they share a socket; for those of a user see
`shard.queue.lending`.

      open ──(the limit is in flight)──▶ shut: the next consumers sleep ──(half of it has arrived)──▶ open: they wake

Bytes in flight to a consumer that leaves count as arrived at once, since no report of them will come.
"""

from __future__ import annotations

from typing import Any


class Outlet:
    """`window` is the part of `lent`, in bytes, that may still be sent; at most `of_consumer` may be in flight to each
    consumer.

    Bytes are borrowed from the user's share when they are needed, up to `nbytes`, and for a message that is larger than
    the window.
    """

    def __init__(self, share: Any, nbytes: int, of_consumer: int) -> None:
        self.share = share
        self.nbytes = nbytes
        self.of_consumer = of_consumer
        self.window = 0
        self.lent = 0
        self.sleepers: dict[Any, None] = {}
        share.outlets.add(self)

    def __del__(self) -> None:
        self.share.take_back(self, self.lent)

    def overdraw(self) -> None:
        """Borrow more, since a message was larger than the window."""
        self.share.lend(self, -self.window)

    def may_send(self, consumer: Any) -> bool:
        """Borrow more, since the window is used up; return False and put the consumer to sleep if that is not
        possible. A consumer that finds no message borrows nothing and stays awake.
        """
        if not consumer.finds_message() or (self.lent < self.nbytes and self.share.borrow(self)):
            return True
        self.sleepers[consumer] = None
        return False

    def returns(self, nbytes: int) -> None:
        """So many bytes have arrived, or no report of them will come."""
        self.window += nbytes
        self.share.restless = True
        if self.lent > self.nbytes:
            self.share.take_back(self, min(self.lent - self.nbytes, self.window))

    def leaves(self, consumer: Any, window: int) -> None:
        """A consumer is gone or is sent nothing more; `window` is its remaining window."""
        self.sleepers.pop(consumer, None)
        self.returns(self.of_consumer - window)

    def woken(self) -> list[Any]:
        """Consumers that may go on, since half of the loan can be sent. While the share is short, unused bytes go to
        the hungry outlets, this one among them if consumers sleep here.
        """
        if self.share.is_short():
            self.share.take_back(self, self.window)
            if self.sleepers:
                self.share.hungry[self] = None
            return []
        if not self.sleepers or self.window * 2 < self.lent:
            return []
        woken = list(self.sleepers)
        self.sleepers.clear()
        return woken
