"""A gate that nobody passes before it is `lifted`, as long as what it stands for lasts."""

from __future__ import annotations

from collections import OrderedDict

from acceptor.gate import UNLIMITED, Session, serve


class ShutGate:
    """Who comes waits, whatever the room. What it stands for says why (`str`)."""

    opens_with_time = False

    def __init__(self) -> None:
        self.lifted = False
        self.terms = None
        self.waiting: OrderedDict[Session, None] = OrderedDict()

    def is_saturated(self) -> bool:
        return not self.lifted

    def room(self) -> tuple[int, int]:
        return (UNLIMITED, UNLIMITED) if self.lifted else (0, 0)

    some_room = room

    def admits(self, count: int, octets: int) -> bool:
        return self.lifted

    def serve(self) -> None:
        serve(self)
