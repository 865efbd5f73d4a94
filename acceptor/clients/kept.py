"""The memory that the acceptor keeps for a connection; the bounds are in acceptor/budgets/accounts.py."""

from __future__ import annotations


class Kept:
    """Bytes kept for one connection, and the number of its `gets` in flight, each of which brings a message.

    `parked`: what waits in its channels; `held`: the same with the memory of each run beside its contents, as
    `flow.held_bytes` limits it. `unfinished`: bodies that it has begun, 0 for few bytes. `uncommitted`: publishes of
    open transactions.
    """

    __slots__ = ("gets", "held", "parked", "uncommitted", "unfinished")

    def __init__(self) -> None:
        self.parked = 0
        self.held = 0
        self.unfinished = 0
        self.uncommitted = 0
        self.gets = 0
