"""How a producer is held and released: its client is notified, its publishes are parked, its socket is read slowly.

      free ──(a publish needs a saturated queue)──▶ held: client notified once, publishes are parked
      held ──(parked bytes exceed the budget)──▶ paused: read by the drip
      paused ──(at most half of the parking budget is parked)──▶ held ──(nothing is parked)──▶ free: client notified

A paused socket whose receive buffer the client has overfilled is read once more, to restore the window that was
offered: with segments dropped at its edge the kernel accepts neither data nor acknowledgements, both sides' timers back
off, and heartbeats arrive too late in either direction.

The notification is Channel.Flow to a client known to honour it that settles nothing on that connection
(`acceptor.holding.channel_flow`; never while its socket is not read: a publisher stuck in the write would stop its
reader), and connection.blocked to one that declared the capability. The pause is a drip: a small read, often enough
that the client's connection survives (`acceptor.clients.traits`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from acceptor.budgets.quotas import RUN_BYTES, SETTLING_BUDGETS
from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.channel_stage import OPEN as CHANNEL_OPEN
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.hold import Hold
from acceptor.clients.pauses import HELD
from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.gates.gate import Gate
from acceptor.gates.terms import UserTerms
from acceptor.holding import channel_flow
from acceptor.holding.episodes import Episodes
from acceptor.holding.escalation import Escalations
from acceptor.holding.hold_log import HoldLog, HoldObserver
from acceptor.holding.last_resort import LastResort
from acceptor.holding.ledger import Ledger
from penstock.amqp.errors import amqp_error
from penstock.limits.means import Means
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.parked import ParkedRun
    from acceptor.clients.spool import Spool

log = get_logger()

# A paused connection is read on, quickly, until this many times the parking budget is parked: a close behind no more
# publishes than that is answered, and so are other channels.
DRIPS_AT_MOST = 8
# An overfull receive buffer is relieved until this many times the parking budget is parked, RELIEF_BYTES at a time:
# the buffer may hold a segment (64 KiB on loopback) too much, and its window opens again for no less than another.
RELIEVED_AT_MOST = 8
RELIEF_BYTES = 192 * 1024
# A client that was notified of one cause is not notified of another one before.
TOLD_AGAIN_SECONDS = 5.0
# A client that stays blocked for one cause is sent the present figures this often.
UPDATED_SECONDS = 30.0
# Parking budgets of a connection that is not to be paused: there must be a bound.
UNPAUSED_BUDGETS = 16
# Bytes read at once from a paused connection that is read on at each poll.
SETTLING_BYTES = 64 * 1024
# Sockets that are checked for being overfull at each poll.
VISITED_AT_ONCE = 64


def budgets_of(means: Means) -> int:
    """Return how many parking budgets may be used up before the socket is paused, by these means."""
    if not means.park:
        return 0
    return 1 if means.pause else UNPAUSED_BUDGETS


def reason_of(gate: Gate) -> str:
    """Return a gate's reason as a short string (AMQP 0-9-1, 4.2.5.3): at most 255 bytes."""
    return str(gate).encode()[:255].decode("utf-8", "ignore")


class Throttle:
    """The held channels and paused connections of one acceptor. Times are seconds of the caller's clock.

    `unsure` channels may have another cause than their client was notified of; `updates` has when a connection.blocked
    is to be refreshed. Of paused connections: `to_read` are read at the next drip, `drips` has when each is visited at
    the latest, data came to those in `filled`, and peers of `hung_up` ones have closed their side. `ignoring`
    is the number of connections that ignore Channel.Flow.
    """

    def __init__(
        self, parking_bytes: int, terms: UserTerms, ledger: Ledger, escalations: Escalations, episodes: Episodes,
        last_resort: LastResort,
    ) -> None:  # fmt: skip
        self.terms = terms
        self.escalations = escalations
        self.episodes = episodes
        self.last_resort = last_resort
        self.quotas = last_resort.quotas
        self.ledger = ledger
        self.observers: tuple[HoldObserver, ...] = (ledger, episodes, HoldLog())
        escalations.terms_changed = self.review
        last_resort.stop_drip = self.stop_drip
        self.parking_bytes = parking_bytes
        self.most_parked = DRIPS_AT_MOST * parking_bytes
        self.most_relieved = RELIEVED_AT_MOST * parking_bytes
        self.held: dict[ChannelState, None] = {}
        self.unsure: dict[ChannelState, None] = {}
        self.updates: DeadlineQueue[ConnectionState] = DeadlineQueue()
        self.paused: dict[ConnectionState, None] = {}
        self.hung_up: set[ConnectionState] = set()
        self.to_read: dict[ConnectionState, None] = {}
        self.drips: DeadlineQueue[ConnectionState] = DeadlineQueue()
        self.filled: dict[ConnectionState, None] = {}
        self.ignoring = 0
        self.parked_bytes = 0
        self.orphan_bytes = 0

    def hold(self, channel: ChannelState, gate: Gate) -> None:
        """Hold a channel that waits at a saturated gate, and notify its client, once."""
        if channel.hold is not None or channel.stage is DETACHED:
            return
        hold = channel.hold = Hold(gate, channel.acceptor.now)
        self.held[channel] = None
        for observer in self.observers:
            observer.held(channel, hold, hold.since)
        early = channel.notices.early
        self.notify(channel, gate, self.take(channel, hold))
        if early is not None:
            channel.unwarn()

    def notify(self, channel: ChannelState, gate: Gate, means: Means) -> None:
        """Notify the client of a stop by these means, unless it knows of the stop."""
        connection = channel.connection
        if not channel.notices.flow and connection not in self.paused and channel_flow.stops(connection, means):
            channel.notices.flow = True
            self.send_flow(channel, active=False)
        if channel.notices.flow:
            self.ledger.acted(channel, "channel.flow")
        if means.blocked and (not channel.notices.blocked or channel.notices.early is not gate):
            self.block(channel, gate)
        elif channel.notices.blocked:
            self.ledger.acted(channel, "connection.blocked")

    def send_flow(self, channel: ChannelState, *, active: bool) -> None:
        """Send Channel.Flow, and expect its flow-ok."""
        channel.notices.compliance.expect_flow_ok(channel.acceptor.now)
        channel.send("channel_flow", active=active)

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

    def take(self, channel: ChannelState, hold: Hold) -> Means:
        """Put a channel on the ladder and parking budget by which a gate holds it. Return the means."""
        means, ladder = self.terms.at(channel.access.vhost, channel.connection.user, hold.gate.terms)
        self.escalations.begin(channel, hold.gate, ladder)
        hold.budgets = self.escalations.budgets(channel, budgets_of(means))
        return means

    def take_terms(self) -> None:
        """Apply changed policies to all held channels, and release those of which nothing waits: a refusal may have
        left nothing.
        """
        for channel in list(self.held):
            self.review(channel)
            channel.release_if_free()

    def review(self, channel: ChannelState) -> None:
        """Recompute how much a channel may park, and pause or resume its connection accordingly."""
        if channel.hold is not None:
            self.take(channel, channel.hold)
        self.pause_or_resume(channel.connection)

    def block(self, channel: ChannelState, gate: Gate) -> None:
        """Send connection.blocked: once for a connection, and again where the reason is another one."""
        connection = channel.connection
        first = connection.notices.blocked_channels == 0
        again = channel.notices.blocked
        if not again:
            channel.notices.blocked = True
            self.ledger.acted(channel, "connection.blocked")
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

    def recheck_cause_later(self, channel: ChannelState) -> None:
        """The gates of a channel have changed: `refresh_notices` is to recheck the cause that its client knows."""
        if channel.hold is not None:
            self.unsure[channel] = None

    def refresh_notices(self, now: float) -> None:
        """Notify clients whose cause has changed, and refresh a reason that has stood for `UPDATED_SECONDS`."""
        self.episodes.update_peaks()
        for channel in list(self.unsure):
            gate = channel.cause()
            if gate is None or gate is channel.held_by:
                del self.unsure[channel]
            elif now >= channel.connection.notices.sent_at + TOLD_AGAIN_SECONDS:
                del self.unsure[channel]
                self.change_cause(channel, gate, now)
        for connection in self.updates.take(now):
            self.update(connection)

    def change_cause(self, channel: ChannelState, gate: Gate, now: float) -> None:
        """Hold a channel for another cause than its client was notified of."""
        hold = channel.hold
        assert hold is not None
        hold.change(gate)
        for observer in self.observers:
            observer.held(channel, hold, now)
        if self.take(channel, hold).blocked:
            self.block(channel, gate)

    def update(self, connection: ConnectionState) -> None:
        """Send a blocked connection its reason again, if the text has changed."""
        told = (channel for channel in connection.channels.values() if channel.notices.blocked)
        gate = next((channel.held_by or channel.notices.early for channel in told), None)
        if gate is None:
            return
        if reason_of(gate) != connection.notices.reason:
            self.send_blocked(connection, gate)
        else:
            connection.notices.sent_at = connection.acceptor.now
            self.updates.put(connection, connection.notices.sent_at + UPDATED_SECONDS)

    def release(self, channel: ChannelState) -> None:
        """Release a channel of which nothing waits, and notify its client."""
        hold, now = channel.hold, channel.acceptor.now
        assert hold is not None
        self.escalations.end(channel)
        channel.hold = None
        del self.held[channel]
        self.unsure.pop(channel, None)
        for observer in self.observers:
            observer.released(channel, hold, now)
        self.untell(channel)
        self.pause_or_resume(channel.connection)

    def untell(self, channel: ChannelState) -> None:
        """Notify the client that the channel may publish again."""
        connection = channel.connection
        if channel.notices.flow:
            channel.notices.flow = False
            if channel.stage is CHANNEL_OPEN:
                self.send_flow(channel, active=True)
        if channel.notices.blocked:
            channel.notices.blocked = False
            connection.notices.blocked_channels -= 1
            if connection.notices.blocked_channels == 0 and connection.client.has_capability("connection.blocked"):
                connection.send(0, "connection_unblocked")

    def parked(self, channel: ChannelState, nbytes: int) -> None:
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
        if nbytes > 0 or connection in self.paused:
            self.pause_or_resume(connection)

    def spooled(self, channel: ChannelState, run: ParkedRun, spool: Spool) -> ParkedRun:
        """Return the run to park, with its contents on disk if much is parked already, in all or for its connection."""
        early = channel.connection.kept.parked >= self.most_relieved
        return spool.parked(run, self.quotas.kept + run.nbytes, early)

    def pause_or_resume(self, connection: ConnectionState) -> None:
        """Pause or resume reading a connection, by how much is parked for it."""
        if connection in self.last_resort.closing:
            return
        if connection in self.paused:
            self.last_resort.is_spent(connection)
            if connection.kept.parked <= min(self.parking_bytes // 2, self.budget(connection)):
                self.stop_drip(connection)
                self.episodes.unpaused(connection)
                connection.resume_reading(HELD)
        elif connection.kept.parked > self.budget(connection) and connection.stage is OPEN:
            self.paused[connection] = self.to_read[connection] = None
            self.drips.put(connection, connection.acceptor.now + connection.drip_seconds())
            for channel in connection.channels.values():
                self.ledger.acted(channel, "paused")
            self.episodes.paused(connection)
            connection.pause_reading(HELD)

    def budget(self, connection: ConnectionState) -> int:
        """Return the bytes that may be parked before the socket is paused: more where acks are still to come."""
        if connection.notices.ignores_flow:
            return 0
        budgets = UNPAUSED_BUDGETS if connection.channels else 1
        for channel in connection.channels.values():
            own = 1 if channel.hold is None else channel.hold.budgets
            budgets = min(budgets, own)
        if budgets and budgets < SETTLING_BUDGETS and connection.settles():
            budgets = SETTLING_BUDGETS
        return min(self.parking_bytes * budgets, self.quotas.allowance(connection))

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone; its channels have been ended."""
        self.stop_drip(connection)
        self.updates.discard(connection)
        self.ledger.forget(connection.id)
        self.hung_up.discard(connection)
        self.ignoring -= connection.notices.ignores_flow
        self.escalations.forget(connection)
        self.last_resort.forget(connection)

    # The drip

    def stop_drip(self, connection: ConnectionState) -> None:
        """Treat a connection as paused no longer."""
        self.paused.pop(connection, None)
        self.to_read.pop(connection, None)
        self.drips.discard(connection)
        self.filled.pop(connection, None)
        self.last_resort.end(connection)

    def read_for_acks(self, connection: ConnectionState) -> None:
        """Have a paused connection read at the next drip: more data or acks may follow."""
        if connection in self.paused:
            self.to_read[connection] = None

    def begins_to_settle(self, connection: ConnectionState) -> None:
        """A connection has begun to consume, or has received a message by basic.get: its acks are awaited."""
        self.read_for_acks(connection)
        for channel in connection.channels.values():
            if channel.notices.early is not None and channel_flow.acknowledges(connection):
                channel.unwarn()
        self.lift_flow(connection)

    def lift_flow(self, connection: ConnectionState) -> None:
        """Of a connection that has something to settle now: its channels that were stopped may go on sending."""
        stopped = [channel for channel in connection.channels.values() if channel.notices.flow]
        if stopped and channel_flow.acknowledges(connection):
            for channel in stopped:
                channel.notices.flow = False
                self.send_flow(channel, active=True)

    def arrived(self, connection: ConnectionState) -> None:
        """Data has arrived at a paused socket."""
        if connection in self.paused:
            self.filled[connection] = self.to_read[connection] = None

    def hangs_up(self, connection: ConnectionState) -> None:
        """The peer has closed its side of a paused socket."""
        if connection in self.last_resort.closing:
            connection.hang_up()
        elif connection in self.paused:
            self.hung_up.add(connection)
            self.to_read[connection] = None

    def drip(self, now: float) -> None:
        """Read a little from every paused connection that needs it.

        A connection needs it if its client would not wait longer, or has overfilled its socket, or consumes: its acks
        stand behind its publishes, and another held client may wait for the room that they make. A connection whose
        peer has closed its side is read to the end. A connection in `to_read` is read once; data that arrives enters it
        again.
        """
        to_read, self.to_read = self.to_read, {}
        for connection in to_read:
            self.pause_or_resume(connection)
            if connection not in self.paused:
                continue
            if connection in self.hung_up or self.is_read_on(connection):
                connection.drip(SETTLING_BYTES)
            elif not self.last_resort.may_read(connection):
                self.to_read[connection] = None  # the share of its user may have room by the next drip
        self.relieve()
        for connection in self.drips.take(now):
            self.drips.put(connection, now + connection.drip_seconds())
            self.filled[connection] = None  # segments out of order fill the buffer too, without an event
            if connection.client.traits.impatient and self.last_resort.may_read(connection):
                connection.drip(connection.client.traits.drip_bytes)
        self.last_resort.advance(now)

    def is_read_on(self, connection: ConnectionState) -> bool:
        """Whether a paused connection is read at each poll: up to `most_parked`, and beyond for acks to come."""
        if connection.kept.parked >= self.most_parked and not connection.has_in_hand():
            return False
        return self.last_resort.may_read(connection)

    def relieve(self) -> None:
        """Read the overfull ones among the paused sockets to which data came."""
        for connection in list(islice(self.filled, VISITED_AT_ONCE)):
            del self.filled[connection]
            if connection.kept.parked >= self.most_relieved or not self.last_resort.may_read(connection):
                self.filled[connection] = None
            elif connection.transport.is_overfull():
                self.filled[connection] = None
                connection.drip(RELIEF_BYTES)
