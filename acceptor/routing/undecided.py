"""The gate where channels wait for a service to decide on a right that their publishes need."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from acceptor.gates.gate import UNLIMITED, Gate, WaitingChannel
from acceptor.gates.rights import Undecided
from acceptor.routing.routing import RoutingGate


class UndecidedChannel(WaitingChannel, Protocol):
    """A channel that may wait here."""

    def wait_at(self, gate: Gate) -> None: ...


class UndecidedGate(RoutingGate):
    """Each channel goes on when its own question is answered."""

    def __str__(self) -> str:
        return "undecided rights"

    def wait(self, channel: UndecidedChannel, undecided: Undecided) -> None:
        """Have a channel wait until a right is decided."""
        channel.wait_at(self)
        undecided.start(partial(self._go_on, channel))

    def _go_on(self, channel: UndecidedChannel, _answer: Any) -> None:
        if channel in self.waiting:
            del self.waiting[channel]
            channel.admit(UNLIMITED)
