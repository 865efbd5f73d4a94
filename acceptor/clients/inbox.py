"""The waiting items of a channel, in order: publishes wait for room, methods for an answer or for earlier publishes."""

from __future__ import annotations

from collections import deque

from acceptor.clients.parked import ParkedMethod, ParkedRun


class Inbox(deque[ParkedRun | ParkedMethod]):
    """Parked runs and methods, with the number of `methods` among them; changed by `put` and `pop_at` alone."""

    __slots__ = ("methods",)

    def __init__(self, most: int | None = None) -> None:
        super().__init__((), most)
        self.methods = 0

    def put(self, item: ParkedRun | ParkedMethod) -> None:
        """Append an item."""
        self.append(item)
        self.methods += isinstance(item, ParkedMethod)

    def pop_at(self, at: int = 0) -> ParkedRun | ParkedMethod:
        """Remove an item and return it."""
        item = self[at]
        del self[at]
        self.methods -= isinstance(item, ParkedMethod)
        return item


EMPTY = Inbox(0)
"""The inbox of channels in which nothing has had to wait yet: an empty one takes 760 bytes."""
