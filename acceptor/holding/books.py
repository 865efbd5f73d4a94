"""The books of holds, kept side by side: the log, the ledger of accounts and incidents, the episodes of telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.holding.episodes import Episodes
from acceptor.holding.hold_log import HoldLog
from acceptor.holding.ledger import Ledger
from acceptor.holding.observer import HoldObserver

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.gate import Gate


class Books:
    """The books of one acceptor. `each` observes holds; pauses, rungs and notices are entered by the methods here."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.ledger = Ledger()
        self.episodes = Episodes(acceptor)
        self.each: tuple[HoldObserver, ...] = (self.ledger, self.episodes, HoldLog())

    def notified(self, channel: ChannelState, means: str) -> None:
        """A client was notified of a stop by a method; an entry is made only if the channel is held."""
        self.ledger.acted(channel, means)

    def paused(self, connection: ConnectionState) -> None:
        """A socket is read by the drip from now on."""
        for channel in connection.channels.values():
            self.ledger.acted(channel, "paused")
        self.episodes.paused(connection)

    def unpaused(self, connection: ConnectionState) -> None:
        """A socket is read as usual from now on."""
        self.episodes.unpaused(connection)

    def escalated(self, channel: ChannelState, gate: Gate, rung: str) -> None:
        """A channel has reached a rung, of its ladder or as the last resort."""
        self.ledger.acted(channel, rung)
        self.episodes.escalated(channel, gate, rung)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone; its channels have been ended."""
        self.ledger.forget(connection.id)
