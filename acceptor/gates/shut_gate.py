"""A gate that no publish passes before it is `lifted`: that of a stop, a moving queue or a stopped vhost."""

from __future__ import annotations

from collections import OrderedDict

from acceptor.gates.cause import HoldCause
from acceptor.gates.gate import UNLIMITED, WaitingChannel, serve


class ShutGate:
    """A gate without room, and with unlimited room once it is lifted. Subclasses give the reason (`str`)."""

    opens_with_time = False

    def __init__(self) -> None:
        self.lifted = False
        self.terms = None
        self.waiting: OrderedDict[WaitingChannel, None] = OrderedDict()

    def describe(self) -> HoldCause:
        """Describe the reason. Subclasses have it."""
        raise NotImplementedError

    def is_saturated(self) -> bool:
        """Whether it is not lifted, so that it holds channels at once."""
        return not self.lifted

    def room(self) -> tuple[int, int]:
        return (UNLIMITED, UNLIMITED) if self.lifted else (0, 0)

    some_room = room

    def admits(self, count: int, nbytes: int) -> bool:
        return self.lifted

    def serve(self) -> None:
        """Admit all waiting channels if the gate is lifted."""
        serve(self)
