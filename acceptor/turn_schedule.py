"""When an acceptor finishes its turns: after a read, for settlements that waited, for gates that open with time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from acceptor.links.outgoing import SETTLING_SECONDS

if TYPE_CHECKING:
    from acceptor.core import AcceptorCore


class TurnSchedule:
    """The turns of one acceptor that are due; `finish_turn` finishes one and calls `begin`, `sent` and `end`.

    At most one is scheduled for each reason: `finishing` after a read, `settling` for settlements that wait
    a little, `metering` for gates that open with time, `routing` for routes that exceeded a turn's budget.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, core: AcceptorCore, finish_turn: Callable[[], None]) -> None:
        self.loop = loop
        self.core = core
        self.state, self.gates = core.state, core.gates
        self.finish_turn = finish_turn
        self.finishing = self.settling = self.metering = self.routing = False

    def ask(self) -> None:
        """Have the turn finished once everything that is ready has been read."""
        if not self.finishing:
            self.finishing = True
            self.loop.call_soon(self._finish_asked)

    def _finish_asked(self) -> None:
        """Finish the turn, unless one was finished since: that contained all that had been read by then."""
        if self.finishing:
            self.finish_turn()

    def begin(self) -> None:
        """A turn is being finished: it contains all that has been read."""
        self.finishing = False

    def sent(self) -> None:
        """The turns of the shards have been closed: schedule one for settlements that still wait."""
        if not self.settling and self.core.waits():
            self.settling = True
            self.loop.call_later(SETTLING_SECONDS, self._settle)

    def end(self) -> None:
        """A turn is finished: schedule what remains for later."""
        if self.gates.metered.closed and not self.metering:
            seconds = self.gates.metered.due()
            if seconds is not None:
                self.metering = True
                self.loop.call_later(seconds, self._meter)
        if self.gates.routing.waiting and not self.routing:
            self.routing = True
            self.loop.call_soon(self._route)

    def _settle(self) -> None:
        """Finish the turn whose settlements have waited for `SETTLING_SECONDS`."""
        self.settling = False
        self.state.now = self.loop.time()
        self.finish_turn()

    def _meter(self) -> None:
        """Serve the gates that open with time."""
        self.metering = False
        self.state.now = self.loop.time()
        self.gates.metered.serve()
        self.finish_turn()

    def _route(self) -> None:
        """Continue with routes that exceeded a turn's budget, after other connections have been read."""
        self.routing = False
        self.state.now = self.loop.time()
        self.gates.routing.serve()
        self.finish_turn()
