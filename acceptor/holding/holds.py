"""How a producer is held and released.

      free ──(a publish needs a saturated queue)──▶ held: client notified once, publishes are parked
      held ──(parked bytes exceed the budget)──▶ paused: read by the drip
      paused ──(at most half of the parking budget is parked)──▶ held ──(nothing is parked)──▶ free: client notified

`Holds` decides only that a channel is held, by which gate and on which terms. What follows from that is done by
its observers: the ladder (`escalation`), the books of log, ledger and telemetry (`books`), the client's notices
(`notifier`), and the bound of what is parked before its socket is paused (`parking`, which has paused sockets read by
the `drip`, up to the `last_resort`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.hold import Hold
from penstock.memory.records import HELD_KINDS

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.gates.gate import Gate
    from acceptor.gates.terms import Terms, UserTerms
    from acceptor.holding.books import Books
    from acceptor.holding.escalation import Escalations
    from acceptor.holding.notifier import Notifier
    from acceptor.holding.observer import HoldObserver
    from acceptor.holding.parking import Parking

# A client that was notified of one cause is not notified of another one before.
NOTIFIED_AGAIN_SECONDS = 5.0


class Holds:
    """The held channels of one acceptor. Times are seconds of the caller's clock.

    `unsure` channels may have another cause than their client was notified of.
    """

    def __init__(
        self, user_terms: UserTerms, escalations: Escalations, books: Books, notifier: Notifier, parking: Parking
    ) -> None:
        self.user_terms = user_terms
        self.escalations = escalations
        self.observers: tuple[HoldObserver, ...] = (escalations, *books.each, notifier, parking)
        self.held: dict[ChannelState, None] = {}
        self.unsure: dict[ChannelState, None] = {}

    def hold(self, channel: ChannelState, gate: Gate) -> None:
        """Hold a channel that waits at a saturated gate, if it is not held yet."""
        if channel.hold is not None or channel.stage is DETACHED:
            return
        hold = channel.hold = Hold(gate, self.terms_at(channel, gate), channel.acceptor.now)
        self.held[channel] = None
        for observer in self.observers:
            observer.held(channel, hold, hold.since)

    def terms_at(self, channel: ChannelState, gate: Gate) -> Terms:
        """Return the terms on which a gate holds a channel."""
        return self.user_terms.at(channel.access.vhost, channel.connection.user, gate.terms)

    def apply_terms(self) -> None:
        """Apply changed policies to all held channels, and release those of which nothing waits: a refusal may have
        left nothing.
        """
        for channel in list(self.held):
            if channel.hold is not None:
                channel.hold.terms = self.terms_at(channel, channel.hold.gate)
            self.escalations.apply_terms(channel)
            channel.release_if_free()

    def recheck_cause_later(self, channel: ChannelState) -> None:
        """The gates of a channel have changed: `recheck_causes` is to recheck the cause that its client knows."""
        if channel.hold is not None:
            self.unsure[channel] = None

    def recheck_causes(self, now: float) -> None:
        """Hold unsure channels for their present cause, unless their client was just notified of another one. A channel
        that waits for a route or a right has none yet.
        """
        for channel in list(self.unsure):
            gate = channel.cause()
            if gate is None or gate is channel.held_by:
                del self.unsure[channel]
            elif gate.describe().kind not in HELD_KINDS:
                continue
            elif now >= channel.connection.notices.sent_at + NOTIFIED_AGAIN_SECONDS:
                del self.unsure[channel]
                self.change_cause(channel, gate, now)

    def change_cause(self, channel: ChannelState, gate: Gate, now: float) -> None:
        """Hold a channel for another cause than its client was notified of."""
        hold = channel.hold
        assert hold is not None
        hold.change(gate, self.terms_at(channel, gate))
        for observer in self.observers:
            observer.held(channel, hold, now)

    def release(self, channel: ChannelState) -> None:
        """Release a channel of which nothing waits."""
        hold, now = channel.hold, channel.acceptor.now
        assert hold is not None
        channel.hold = None
        del self.held[channel]
        self.unsure.pop(channel, None)
        for observer in self.observers:
            observer.released(channel, hold, now)
