"""The parts of an acceptor that hold producers, put together: the holds, and all that follows from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.holding import channel_flow
from acceptor.holding.books import Books
from acceptor.holding.drip import Drip
from acceptor.holding.escalation import Escalations
from acceptor.holding.flow_delays import FlowDelays
from acceptor.holding.holds import Holds
from acceptor.holding.last_resort import LastResort
from acceptor.holding.notifier import Notifier
from acceptor.holding.parking import Parking

if TYPE_CHECKING:
    from acceptor.budgets.quotas import Quotas
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.terms import UserTerms
    from acceptor.holding.event_log import EventLog
    from acceptor.routing.gates import Gates


class Holding:
    """One of each, for all connections of the acceptor."""

    def __init__(
        self, acceptor: AcceptorState, gates: Gates, quotas: Quotas, user_terms: UserTerms, events: EventLog
    ) -> None:
        parking_bytes = acceptor.settings.flow.parking_bytes
        self.books = Books(acceptor)
        self.escalations = Escalations(acceptor, gates, self.books, events)
        self.last_resort = LastResort(acceptor, quotas, self.books, self.escalations)
        self.drip = Drip(parking_bytes, self.last_resort)
        self.parking = Parking(parking_bytes, quotas, self.escalations, self.books, self.drip)
        self.notifier = Notifier(self.books)
        self.delays = FlowDelays(acceptor.node_us)
        self.holds = Holds(user_terms, self.escalations, self.books, self.notifier, self.parking)

    def begins_to_settle(self, connection: ConnectionState) -> None:
        """A connection has begun to consume, or has received a message by basic.get: its acks are awaited."""
        self.drip.read_soon(connection)
        for channel in connection.channels.values():
            if channel.notices.early is not None and channel_flow.acknowledges(connection):
                channel.unwarn()
        self.notifier.lift_flow(connection)

    def refresh_notices(self, now: float) -> None:
        """Notify clients whose cause or reason has changed, and update the peaks of episodes; called once a second."""
        self.books.episodes.update_peaks()
        self.holds.recheck_causes(now)
        self.notifier.refresh(now)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone; its channels have been ended."""
        self.drip.forget(connection)
        self.notifier.forget(connection)
        self.books.forget(connection)
        self.escalations.forget(connection)
        self.last_resort.forget(connection)
