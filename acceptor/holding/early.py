"""Early notice: clients that published to a queue lately are notified of its stop before they publish again.

      publishes lately ──(the queue has stopped, and still is at the next poll)──▶ warned ──(a publish waits)──▶ held
      warned ──(room again, the queue is gone or no longer on its way, it begins to settle)──▶ notice retracted

A warned channel is notified like a held one (acceptor/holding/notifier.py) but is not held: nothing of it waits, and it
is on no ladder and in no account. A channel is not warned if it publishes more rarely than `flow.early_rate`, if it
cannot be notified or must not be stopped (its connection settles, see acceptor/holding/channel_flow.py, or its socket
is paused), or at a queue with a priority lane, which lets the lane's messages pass.

A publish is only counted. All else is done once a second for each channel, and when a queue stops. A stop that is over
by the next poll is announced only to channels that met it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import OPEN
from acceptor.clients.pauses import HELD
from acceptor.holding import channel_flow
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.queue_gate import QueueGate
    from acceptor.holding.holds import Holds
    from acceptor.holding.notifier import Notifier
    from acceptor.routing.gates import Gates
    from acceptor.routing.routes import Routes
    from penstock.limits.means import Means

log = get_logger()

# Pause after a visit to all channels, in seconds for each: it bounds the time that such visits take.
SECONDS_EACH = 20e-6


class EarlyNotice:
    """The early notices of an acceptor, to channels that publish at least at `rate` messages a second; 0: to none."""

    def __init__(
        self, acceptor: AcceptorState, gates: Gates, routes: Routes, notifier: Notifier, holds: Holds,
    ) -> None:  # fmt: skip
        self.acceptor = acceptor
        self.gates = gates
        self.routes = routes
        self.notifier = notifier
        self.holds = holds
        self.rate = acceptor.settings.flow.early_rate
        self.next_check = 0.0

    def tick(self) -> None:
        """Update the rates of all channels; called once a second."""
        if self.rate and self.gates.queue_gates:
            for connection in self.acceptor.connections.values():
                for channel in connection.channels.values():
                    traffic = channel.traffic
                    if traffic.recent or traffic.published != traffic.counted:
                        traffic.tick()

    def warn_channels(self) -> None:
        """Warn channels of the queues that have stopped since the last call and still are; called often."""
        gates = self.gates
        if not gates.stopped or self.acceptor.now < self.next_check:
            return
        stopped, gates.stopped = gates.stopped, {}
        full = {queue_gate for queue_gate in stopped if queue_gate.is_saturated() and queue_gate.lane is None}
        if not (full and self.rate):
            return
        seen = 0
        warned = dict.fromkeys(full, 0)
        for connection in self.acceptor.connections.values():
            for channel in connection.channels.values():
                seen += 1
                queue_gate = self.is_for(channel, full)
                if queue_gate is not None and self.warn(channel, queue_gate):
                    warned[queue_gate] += 1
        self.next_check = self.acceptor.now + seen * SECONDS_EACH
        for queue_gate, count in warned.items():
            if count:
                log.info("early notice", reason=str(queue_gate), channels=count)

    def is_for(self, channel: ChannelState, full: set[QueueGate]) -> QueueGate | None:
        """Return one of these queues to which a channel publishes often enough; None also if its client was notified
        already.
        """
        if channel.held_by is not None or channel.notices.early is not None or channel.traffic.rate() < self.rate:
            return None
        for route in channel.routes.recent:
            for queue_gate in route.queue_gates:
                if queue_gate in full and self.routes.passes(queue_gate, channel, route):
                    return queue_gate
        return None

    def warn(self, channel: ChannelState, queue_gate: QueueGate) -> bool:
        """Notify the client of a stop, if that is possible. Return whether it was notified."""
        connection = channel.connection
        if channel.stage is not OPEN or connection.pauses & HELD or channel_flow.acknowledges(connection):
            return False
        means = self.means(channel, queue_gate)
        if not self.notifies(channel, means):
            return False
        channel.notices.early = queue_gate
        queue_gate.warned[channel] = None
        self.notifier.notify(channel, queue_gate, means)
        return True

    def means(self, channel: ChannelState, queue_gate: QueueGate) -> Means:
        """Return the means by which a queue holds a channel."""
        return self.holds.terms_at(channel, queue_gate).means

    def notifies(self, channel: ChannelState, means: Means) -> bool:
        """Whether these means notify the channel's client of a stop."""
        connection = channel.connection
        blocked = means.blocked and connection.client.has_capability("connection.blocked")
        return blocked or channel_flow.stops(connection, means)

    def reconsider(self) -> None:
        """The topology has changed: retract notices to channels that do not publish to the queue any more, or whose
        client the queue has no means to notify.
        """
        for queue_gate in self.gates.limited():
            for channel in list(queue_gate.warned):
                channel.recheck_warning()

    def concerns(self, channel: ChannelState, queue_gate: QueueGate) -> bool:
        """Whether the early notice of a queue still concerns a channel."""
        if queue_gate.lane is not None or not self.notifies(channel, self.means(channel, queue_gate)):
            return False
        return any(self.routes.passes(queue_gate, channel, route) for route in channel.routes.recent)
