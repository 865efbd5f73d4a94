"""How much routing one connection's publishes may cost in a turn, so that others' turns come.

A route that is not known yet costs the places that matching visits (router/model/topics_cy.py), and what it leads to.
It is charged to the connection of who publishes. Once that has used up its `BUDGET`, the channel waits at the
`RoutingGate`, with a route half made, for the next turn; all that wait there have together one budget a turn, in
rotation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol, cast

from acceptor.gate import UNLIMITED, Session
from router.model.topics_cy import Work

if TYPE_CHECKING:
    from acceptor.permissions import Access
    from acceptor.route import Route
    from penstock.batch.batch_cy import Batch
    from router.model.working import Working

BUDGET = 4096
"""Places that may be visited in a turn: half a millisecond, about."""
# What making a route costs beside matching, and finding that of one message by its headers, in places.
ROUTE = 200
MESSAGE = 50


class Unfinished(Exception):
    """A route costs more than there is left of this turn's budget."""


class Budget:
    """What a connection may still spend in this turn of its acceptor. What it spent too much is of the next ones."""

    __slots__ = ("turn", "work")

    def __init__(self) -> None:
        self.turn = 0
        self.work = Work(BUDGET)

    def at(self, turn: int) -> Work:
        if turn != self.turn:
            self.turn = turn
            self.work.left = min(self.work.left + BUDGET, BUDGET)
        return self.work


class Publisher(Protocol):
    """Who publishes, and is charged for it."""

    @property
    def access(self) -> Access: ...

    def budget(self) -> Work:
        """What is left to its connection in this turn."""
        ...


class Waiting(Session, Publisher, Protocol):
    """A channel that may wait for the budget of another turn."""


class Routing:
    """A route in the making, for the message of a batch that is first to be published. Of an `epoch` of the cache: when
    that is cleared it is finished all the same, for this message, and not kept.
    """

    __slots__ = ("batch", "epoch", "first", "making")

    def __init__(self, batch: Batch, first: int, epoch: int, making: Working[Route]) -> None:
        self.batch = batch
        self.first = first
        self.epoch = epoch
        self.making = making

    def go_on(self) -> Route | None:
        """The route; None if there is no work left for it. AMQPError if there is none."""
        try:
            next(self.making)
        except StopIteration as made:
            return cast("Route", made.value)
        return None


class RoutingGate:
    """Where channels wait for the next turn's budget. It holds nobody: nobody is told."""

    opens_with_time = False
    terms = None

    def __init__(self) -> None:
        self.waiting: OrderedDict[Session, None] = OrderedDict()

    def __str__(self) -> str:
        return "routing"

    def is_saturated(self) -> bool:
        return False

    def room(self) -> tuple[int, int]:
        return UNLIMITED, UNLIMITED

    some_room = room

    def admits(self, count: int, octets: int) -> bool:
        return True

    def serve(self) -> None:
        """Once a turn: let those go on who wait, one after the other, until all together have spent a budget."""
        left = BUDGET
        for _ in range(len(self.waiting)):
            if left <= 0 or not self.waiting:
                return
            session = cast("Waiting", self.waiting.popitem(last=False)[0])
            work = session.budget()
            before = work.visited
            session.admit(UNLIMITED)
            left -= work.visited - before
