"""Early notice: who published to a queue lately is told that it has stopped before its next publish comes.

      publishes lately ──(the queue has stopped, and still is at the next look)──▶ warned ──(a publish waits)──▶ held
      warned ──(room again, the queue is gone or no longer on its way, it begins to settle)──▶ told that it may go on

Who is warned is told as one that is held (acceptor/throttle.py), but is not: nothing of it waits, it is on no ladder
and in no account. Not warned is who publishes more rarely than `flow.early_rate`, and who could not be told or is not
to be stopped: a connection that settles (acceptor/channel_flow.py), one whose socket is paused, and at a queue with a
priority lane anybody, because what is for the lane passes.

On the way of a publish it is only counted. All else is done once a second for each channel, and when a queue stops; a
stop that is over by the next look is told to nobody who has not met it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor import channel_flow
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.gates import Gates
    from acceptor.inlet import Inlet
    from acceptor.routes import Routes
    from acceptor.state import AcceptorState
    from acceptor.terms import UserTerms
    from acceptor.throttle import Throttle
    from penstock.limits.means import Means

log = get_logger()

# Looking at all channels may take that much of the time at most: so many seconds pass for each that was looked at.
SECONDS_EACH = 20e-6


class EarlyNotice:
    """Whom an acceptor warns: who has published at least at that rate, in messages a second; 0 warns nobody."""

    def __init__(
        self, acceptor: AcceptorState, gates: Gates, routes: Routes, throttle: Throttle, user_terms: UserTerms,
    ) -> None:  # fmt: skip
        self.acceptor = acceptor
        self.gates = gates
        self.routes = routes
        self.throttle = throttle
        self.user_terms = user_terms
        self.rate = acceptor.settings.flow.early_rate
        self.next_look = 0.0

    def tick(self) -> None:
        """Once a second."""
        if self.rate and self.gates.inlets:
            for connection in self.acceptor.connections.values():
                for channel in connection.channels.values():
                    pulse = channel.pulse
                    if pulse.lately or pulse.count != pulse.counted:
                        pulse.tick()

    def look(self) -> None:
        """Often: tell of the queues that have stopped since, if they still are."""
        gates = self.gates
        if not gates.stopped or self.acceptor.now < self.next_look:
            return
        stopped, gates.stopped = gates.stopped, {}
        full = {inlet for inlet in stopped if inlet.is_saturated() and inlet.lane is None}
        if not (full and self.rate):
            return
        seen = 0
        told = dict.fromkeys(full, 0)
        for connection in self.acceptor.connections.values():
            for channel in connection.channels.values():
                seen += 1
                inlet = self.is_for(channel, full)
                if inlet is not None and self.warn(channel, inlet):
                    told[inlet] += 1
        self.next_look = self.acceptor.now + seen * SECONDS_EACH
        for inlet, count in told.items():
            if count:
                log.info("told early", reason=str(inlet), channels=count)

    def is_for(self, channel: ChannelState, full: set[Inlet]) -> Inlet | None:
        """Which of these queues a channel publishes to, if it does so often enough, and is not told already."""
        if channel.held_by is not None or channel.warned_by is not None or channel.pulse.rate() < self.rate:
            return None
        for route in channel.routes:
            for inlet in route.inlets:
                if inlet in full and self.routes.passes(inlet, channel, route):
                    return inlet
        return None

    def warn(self, channel: ChannelState, inlet: Inlet) -> bool:
        """Tell it, if it can be; whether it was."""
        connection, throttle = channel.connection, self.throttle
        if channel.closing or connection in throttle.paused or channel_flow.acknowledges(connection):
            return False
        means = self.means(channel, inlet)
        if not self.tells(channel, means):
            return False
        channel.warned_by = inlet
        inlet.warned[channel] = None
        throttle.tell(channel, inlet, means)
        return True

    def means(self, channel: ChannelState, inlet: Inlet) -> Means:
        return self.user_terms.at(channel.vhost, channel.connection.user, inlet.terms).means

    def tells(self, channel: ChannelState, means: Means) -> bool:
        """Whether its client hears of a stop by these means."""
        connection = channel.connection
        blocked = means.blocked and connection.has_capability("connection.blocked")
        return blocked or channel_flow.stops(connection, means)

    def reconsider(self) -> None:
        """The topology has changed: who does not publish to its queue any more, or is told by no means, may go on."""
        for inlet in self.gates.limited():
            for session in list(inlet.warned):
                session.look_at_warning()

    def concerns(self, channel: ChannelState, inlet: Inlet) -> bool:
        """Whether a channel that is warned of a queue still is to be."""
        if inlet.lane is not None or not self.tells(channel, self.means(channel, inlet)):
            return False
        return any(self.routes.passes(inlet, channel, route) for route in channel.routes)
