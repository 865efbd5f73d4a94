"""How much routing one connection's publishes may cost in a turn, so that other connections have their turns.

A route that is not known yet costs the places that matching visits (router/model/topics_cy.py), and its queues. The
publisher's connection is charged for it. Once a connection has used up its `BUDGET`, the channel waits at the
`RoutingGate`, with a route half made, for the next turn; all channels that wait there share one budget a turn, in
rotation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol, cast

from acceptor.gates.cause import HoldCause
from acceptor.gates.gate import UNLIMITED, WaitingChannel
from router.model.topics_cy import Work

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access
    from acceptor.routing.route import Route
    from penstock.batch.batch_cy import Batch
    from router.model.working import Working

BUDGET = 4096
"""Places that may be visited in a turn: about half a millisecond."""
# The cost in places of making a route, beside matching, and of finding the route of one message by its headers.
ROUTE = 200
MESSAGE = 50


class Unfinished(Exception):
    """A route costs more than the remaining budget of this turn."""


class Budget:
    """The routing budget of a connection in this turn of its acceptor. Overspending is deducted from the next turns."""

    __slots__ = ("turn", "work")

    def __init__(self) -> None:
        self.turn = 0
        self.work = Work(BUDGET)

    def at(self, turn: int) -> Work:
        """Return the budget of a turn."""
        if turn != self.turn:
            self.turn = turn
            self.work.left = min(self.work.left + BUDGET, BUDGET)
        return self.work


class Publisher(Protocol):
    """A channel that publishes, and whose connection is charged for it."""

    @property
    def access(self) -> Access: ...

    def budget(self) -> Work:
        """Return the remaining budget of its connection in this turn."""
        ...


class Run(Protocol):
    """Publishes of a batch that follow each other, from row `first`, with one address and further routing keys."""

    @property
    def address(self) -> bytes: ...

    @property
    def further(self) -> tuple[str, ...]: ...

    @property
    def batch(self) -> Batch: ...

    @property
    def first(self) -> int: ...


class Waiting(WaitingChannel, Publisher, Protocol):
    """A channel that may wait for the budget of another turn."""


class Routing:
    """A route in the making, for the first unpublished message of a batch. `epoch` is that of the cache: if the cache
    is cleared, the route is finished all the same, for this message, and not cached.
    """

    __slots__ = ("batch", "epoch", "first", "making")

    def __init__(self, batch: Batch, first: int, epoch: int, making: Working[Route]) -> None:
        self.batch = batch
        self.first = first
        self.epoch = epoch
        self.making = making

    def advance(self) -> Route | None:
        """Return the route; None if the budget is used up. AMQPError if there is no route."""
        try:
            next(self.making)
        except StopIteration as made:
            return cast("Route", made.value)
        return None


class RoutingGate:
    """The gate where channels wait for the next turn's budget. It holds no producer, and nothing is reported of it."""

    opens_with_time = False
    terms = None

    def __init__(self) -> None:
        self.waiting: OrderedDict[WaitingChannel, None] = OrderedDict()

    def __str__(self) -> str:
        return "routing"

    def describe(self) -> HoldCause:
        """Describe the gate; it never holds."""
        return HoldCause("routing", str(self), str(self), "link")

    def is_saturated(self) -> bool:
        return False

    def room(self) -> tuple[int, int]:
        return UNLIMITED, UNLIMITED

    some_room = room

    def admits(self, count: int, nbytes: int) -> bool:
        return True

    def serve(self) -> None:
        """Let waiting channels go on, in turn, until together they have spent a budget; called once a turn."""
        left = BUDGET
        for _ in range(len(self.waiting)):
            if left <= 0 or not self.waiting:
                return
            channel = cast("Waiting", self.waiting.popitem(last=False)[0])
            work = channel.budget()
            before = work.visited
            channel.admit(UNLIMITED)
            left -= work.visited - before
