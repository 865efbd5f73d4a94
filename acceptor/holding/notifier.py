"""The notices of stops: channel.flow or connection.blocked, by the one that the client understands.

      free ──(held, or warned early)──▶ notified ──(released, or the warning retracted)──▶ free
      notified ──(held for another cause; or the reason has stood for `UPDATED_SECONDS`)──▶ connection.blocked again

Channel.Flow goes to a client known to honour it that settles nothing on that connection
(`acceptor.holding.channel_flow`), and never while its socket is not read: a publisher stuck in the write would stop its
reader. connection.blocked goes to a client that declared the capability, once for all its stopped channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import OPEN
from acceptor.clients.pauses import HELD
from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.holding import channel_flow
from acceptor.holding.observer import HoldObserver
from penstock.amqp.errors import amqp_error
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.hold import Hold
    from acceptor.gates.gate import Gate
    from acceptor.holding.books import Books
    from penstock.limits.means import Means

log = get_logger()

# A client that stays blocked for one cause is sent the present figures this often.
UPDATED_SECONDS = 30.0


def reason_of(gate: Gate) -> str:
    """Return a gate's reason as a short string (AMQP 0-9-1, 4.2.5.3): at most 255 bytes."""
    return str(gate).encode()[:255].decode("utf-8", "ignore")


class Notifier(HoldObserver):
    """The notices of one acceptor's clients. Times are seconds of the caller's clock.

    `updates` has when a connection.blocked is to be refreshed. `ignoring` is the number of connections that ignore
    Channel.Flow.
    """

    def __init__(self, books: Books) -> None:
        self.books = books
        self.updates: DeadlineQueue[ConnectionState] = DeadlineQueue()
        self.ignoring = 0

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Notify the client of a held channel, once, and of another cause only by connection.blocked."""
        means = hold.terms.means
        if hold.causes > 1:
            if means.blocked:
                self.block(channel, hold.gate)
            return
        self.notify(channel, hold.gate, means)
        if channel.notices.early is not None:
            channel.unwarn()

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Notify the client that the channel may publish again."""
        self.retract(channel)

    def notify(self, channel: ChannelState, gate: Gate, means: Means) -> None:
        """Notify the client of a stop by these means, unless it knows of the stop."""
        connection = channel.connection
        if not channel.notices.flow and not connection.pauses & HELD and channel_flow.stops(connection, means):
            channel.notices.flow = True
            self.send_flow(channel, active=False)
        if channel.notices.flow:
            self.books.notified(channel, "channel.flow")
        if means.blocked and (not channel.notices.blocked or channel.notices.early is not gate):
            self.block(channel, gate)
        elif channel.notices.blocked:
            self.books.notified(channel, "connection.blocked")

    def retract(self, channel: ChannelState) -> None:
        """Notify the client that the channel may publish again."""
        connection = channel.connection
        if channel.notices.flow:
            channel.notices.flow = False
            if channel.stage is OPEN:
                self.send_flow(channel, active=True)
        if channel.notices.blocked:
            channel.notices.blocked = False
            connection.notices.blocked_channels -= 1
            if connection.notices.blocked_channels == 0 and connection.client.has_capability("connection.blocked"):
                connection.send(0, "connection_unblocked")

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone; its channels have been ended."""
        self.updates.discard(connection)
        self.ignoring -= connection.notices.ignores_flow

    # Channel.Flow

    def send_flow(self, channel: ChannelState, *, active: bool) -> None:
        """Send Channel.Flow, and expect its flow-ok."""
        channel.notices.compliance.expect_flow_ok(channel.acceptor.now)
        channel.send("channel_flow", active=active)

    def lift_flow(self, connection: ConnectionState) -> None:
        """Of a connection that has something to settle now: its channels that were stopped may go on sending."""
        stopped = [channel for channel in connection.channels.values() if channel.notices.flow]
        if stopped and channel_flow.acknowledges(connection):
            for channel in stopped:
                channel.notices.flow = False
                self.send_flow(channel, active=True)

    def published_on(self, channel: ChannelState, count: int, nbytes: int) -> None:
        """Count publishes on a channel that Channel.Flow has stopped. A connection that ignores it is sent none any
        more, and is paused at once, or closed (`flow.flow_ignored`).
        """
        connection = channel.connection
        read_since = connection.read_since if connection.reads else None
        if connection.notices.ignores_flow or not channel.notices.compliance.breached(
            count, nbytes, channel.acceptor.now, read_since
        ):
            return
        self.ignoring += 1
        connection.notices.ignores_flow = True
        log.warning("flow ignored", connection=connection.id, channel=channel.number, client=connection.client.name,
                    peer=connection.client.peer, user=connection.user,
                    messages=channel.notices.compliance.count)  # fmt: skip
        if channel.acceptor.settings.flow.flow_ignored == "close":
            text = f"{channel.held_by or channel.notices.early}; published on though told to stop by channel.flow"
            connection.fail(amqp_error(506, text), keep_parked=True)

    # connection.blocked

    def block(self, channel: ChannelState, gate: Gate) -> None:
        """Send connection.blocked: once for a connection, and again where the reason is another one."""
        connection = channel.connection
        first = connection.notices.blocked_channels == 0
        again = channel.notices.blocked
        if not again:
            channel.notices.blocked = True
            self.books.notified(channel, "connection.blocked")
            connection.notices.blocked_channels += 1
        if first or (again and reason_of(gate) != connection.notices.reason):
            self.send_blocked(connection, gate)

    def send_blocked(self, connection: ConnectionState, gate: Gate) -> None:
        """Send connection.blocked with the gate's reason to a client that declared the capability."""
        if connection.client.has_capability("connection.blocked"):
            connection.notices.sent_at = connection.acceptor.now
            connection.notices.reason = reason_of(gate)
            connection.send(0, "connection_blocked", reason=connection.notices.reason)
            self.updates.put(connection, connection.notices.sent_at + UPDATED_SECONDS)

    def refresh(self, now: float) -> None:
        """Send blocked connections their reason again where it has stood for `UPDATED_SECONDS` and its text changed."""
        for connection in self.updates.pop_due(now):
            self.update(connection)

    def update(self, connection: ConnectionState) -> None:
        """Send a blocked connection its reason again, if the text has changed."""
        blocked = (channel for channel in connection.channels.values() if channel.notices.blocked)
        gate = next((channel.held_by or channel.notices.early for channel in blocked), None)
        if gate is None:
            return
        if reason_of(gate) != connection.notices.reason:
            self.send_blocked(connection, gate)
        else:
            connection.notices.sent_at = connection.acceptor.now
            self.updates.put(connection, connection.notices.sent_at + UPDATED_SECONDS)
