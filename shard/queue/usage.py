"""How one queue has been used, as far as that matters later."""

from __future__ import annotations


class Usage:
    """The use of a queue; times in microseconds since 1970.

    `last` is when the queue was last used: unused queues expire. `had_consumers` arms auto-delete. `consumed` is set
    once a client has consumed from the queue, or tried to. The totals of its contents are counted since
    `counted_since`.
    """

    __slots__ = ("consumed", "counted_since", "had_consumers", "last")

    def __init__(self, now: int) -> None:
        self.last = self.counted_since = now
        self.had_consumers = self.consumed = False
