"""The parked publishes of held producers: how many, and when a socket is paused for them.

A connection is paused once it has parked more than its budget: a number of parking budgets that the rung of its
channels, or else their means, say; more of them where acks are still to come; and never more than its allowance
(`acceptor.budgets.quotas`). It is read as usual again once half a parking budget is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.budgets.quotas import RUN_BYTES, SETTLING_BUDGETS, Quotas
from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.pauses import HELD
from acceptor.holding.observer import HoldObserver

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.hold import Hold
    from acceptor.clients.parked import ParkedRun
    from acceptor.clients.spool import Spool
    from acceptor.holding.books import Books
    from acceptor.holding.drip import Drip
    from acceptor.holding.escalation import Escalations
    from penstock.limits.means import Means

# Parking budgets of a connection that is not to be paused: there must be a bound.
UNPAUSED_BUDGETS = 16


def budgets_of(means: Means) -> int:
    """Return how many parking budgets may be used up before the socket is paused, by these means."""
    if not means.park:
        return 0
    return 1 if means.pause else UNPAUSED_BUDGETS


class Parking(HoldObserver):
    """The parked bytes of one acceptor: `parked_bytes` in all, `orphan_bytes` of them of channels that are gone."""

    def __init__(self, parking_bytes: int, quotas: Quotas, escalations: Escalations, books: Books, drip: Drip) -> None:
        self.parking_bytes = parking_bytes
        self.quotas = quotas
        self.escalations = escalations
        self.books = books
        self.drip = drip
        self.parked_bytes = 0
        self.orphan_bytes = 0
        escalations.budget_changed = self.pause_or_resume

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """The channel limits its connection by other terms."""
        self.pause_or_resume(channel.connection)

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """The channel does not limit its connection any more."""
        self.pause_or_resume(channel.connection)

    def account(self, channel: ChannelState, nbytes: int) -> None:
        """Account for parked bytes of a channel, or where `nbytes` is negative for bytes that are parked no longer."""
        connection = channel.connection
        self.parked_bytes += nbytes
        kept = nbytes + RUN_BYTES if nbytes > 0 else nbytes - RUN_BYTES
        self.quotas.keep(connection, kept)
        if channel.stage is DETACHED:
            self.orphan_bytes += nbytes
            return
        connection.kept.held += kept
        connection.kept.parked += nbytes
        if nbytes > 0 or connection in self.drip.paused:
            self.pause_or_resume(connection)

    def spooled(self, channel: ChannelState, run: ParkedRun, spool: Spool) -> ParkedRun:
        """Return the run to park, with its contents on disk if much is parked already, in all or for its connection."""
        early = channel.connection.kept.parked >= self.drip.most_relieved
        return spool.parked(run, self.quotas.kept + run.nbytes, early)

    def pause_or_resume(self, connection: ConnectionState) -> None:
        """Pause or resume reading a connection, by how much is parked for it."""
        last_resort = self.drip.last_resort
        if connection in last_resort.closing:
            return
        if connection in self.drip.paused:
            last_resort.is_spent(connection)
            if self.has_drained(connection):
                self.drip.stop(connection)
                self.books.unpaused(connection)
                connection.resume_reading(HELD)
        elif connection.stage is OPEN and self.is_over(connection):
            self.drip.start(connection)
            self.books.paused(connection)
            connection.pause_reading(HELD)

    def is_over(self, connection: ConnectionState) -> bool:
        """Whether more is parked than before the socket is paused; small publishes may be next to nothing beside the
        memory of their runs.
        """
        kept = connection.kept
        return kept.parked > self.budget(connection) or kept.held > self.quotas.allowance(connection)

    def has_drained(self, connection: ConnectionState) -> bool:
        """Whether so little is parked that a paused socket may be read as usual again."""
        kept = connection.kept
        little = kept.parked <= min(self.parking_bytes // 2, self.budget(connection))
        return little and 2 * kept.held <= self.quotas.allowance(connection)

    def budget(self, connection: ConnectionState) -> int:
        """Return the bytes of contents that may be parked before the socket is paused: more where acks are still to
        come.
        """
        if connection.notices.ignores_flow:
            return 0
        budgets = UNPAUSED_BUDGETS if connection.channels else 1
        for channel in connection.channels.values():
            budgets = min(budgets, self.budgets_at(channel))
        if budgets and budgets < SETTLING_BUDGETS and connection.settles():
            budgets = SETTLING_BUDGETS
        return self.parking_bytes * budgets

    def budgets_at(self, channel: ChannelState) -> int:
        """Return the parking budgets of a channel: by its rung, else by the means that hold it."""
        if channel.hold is None:
            return 1
        by_rung = self.escalations.budgets(channel)
        return budgets_of(channel.hold.terms.means) if by_rung is None else by_rung

    def read_paused(self, now: float) -> None:
        """Resume paused connections that may be read as usual again, and have the others read by the drip."""
        for connection in list(self.drip.to_read):
            self.pause_or_resume(connection)
        self.drip.read(now)
