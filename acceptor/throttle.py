"""How a producer is held back, and let go: tell it, park what it sends on, read it slowly.

      free ──(a publish needs a saturated queue)──▶ held: told once, publishes are parked
      held ──(parked octets exceed the budget)──▶ paused: read by the drip
      paused ──(at most half of the parking budget is parked)──▶ held ──(nothing is parked)──▶ free: told again

A paused socket whose receive buffer the client has overfilled is read once more, to give back what it was offered: with
segments dropped at its edge the kernel takes neither data nor acknowledgements, both sides' timers back off, and
heartbeats arrive too late in either direction.

Told means Channel.Flow to a client known to honour it that settles nothing on that connection (`acceptor.channel_flow`;
never while its socket is not read: a publisher stuck in the write would stop its reader), and connection.blocked to one
that declared the capability. The pause is a drip: a small read, often enough that the client's connection survives
(`acceptor.clients`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from acceptor import channel_flow
from acceptor.due import Due
from acceptor.episodes import Episodes
from acceptor.escalation import Escalations
from acceptor.gate import Gate
from acceptor.last_resort import LastResort
from acceptor.ledger import Ledger
from acceptor.pauses import HELD
from acceptor.quotas import RUN_OCTETS, SETTLING_BUDGETS
from acceptor.terms import UserTerms
from penstock.amqp.errors import amqp_error
from penstock.limits.means import Means
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.connection_state import ConnectionState
    from acceptor.parked import ParkedRun
    from acceptor.spool import Spool

log = get_logger()

# A paused connection is read on, quickly, until so many times the parking budget is parked: a close that comes behind
# no more publishes is answered, and so are other channels.
DRIPS_AT_MOST = 8
# An overfilled receive buffer is relieved until so many times the parking budget is parked, and by so much at once:
# it may hold a segment (64 KiB on loopback) too much, and its window opens again for no less than another.
RELIEVED_AT_MOST = 8
RELIEF_OCTETS = 192 * 1024
# Who is told of one cause is not told of another before.
TOLD_AGAIN_SECONDS = 5.0
# Who is still told of the same cause hears how it stands now.
UPDATED_SECONDS = 30.0
# Of one that is not to be paused: there has to be an end.
UNPAUSED_BUDGETS = 16
# What is read at once from a paused connection that consumes as well.
SETTLING_OCTETS = 64 * 1024
# Of sockets that may be overfull so many are looked at each time.
VISITED_AT_ONCE = 64


def budgets_of(means: Means) -> int:
    """Parking budgets that may be used up before the socket is paused."""
    if not means.park:
        return 0
    return 1 if means.pause else UNPAUSED_BUDGETS


def reason_of(gate: Gate) -> str:
    """What a client is told: a short string (AMQP 0-9-1, 4.2.5.3), of at most 255 octets."""
    return str(gate).encode()[:255].decode("utf-8", "ignore")


class Throttle:
    """Who is held, and whose socket is paused, in one acceptor. Times are seconds of the caller's clock."""

    def __init__(
        self, parking_octets: int, terms: UserTerms, ledger: Ledger, escalations: Escalations, episodes: Episodes,
        last_resort: LastResort,
    ) -> None:  # fmt: skip
        self.terms = terms
        self.escalations = escalations
        self.episodes = episodes
        self.last_resort = last_resort
        self.quotas = last_resort.quotas
        self.ledger = ledger
        escalations.terms_changed = self.review
        last_resort.stop_drip = self.stop_drip
        self.parking_octets = parking_octets
        self.most_parked = DRIPS_AT_MOST * parking_octets
        self.most_relieved = RELIEVED_AT_MOST * parking_octets
        self.held: dict[ChannelState, None] = {}
        self.unsure: dict[ChannelState, None] = {}
        self.updates: Due[ConnectionState] = Due()
        self.paused: dict[ConnectionState, None] = {}
        self.hung_up: set[ConnectionState] = set()
        self.to_read: dict[ConnectionState, None] = {}
        self.drips: Due[ConnectionState] = Due()
        self.filled: dict[ConnectionState, None] = {}
        self.ignoring: set[ConnectionState] = set()
        self.parked_octets = 0
        self.orphan_octets = 0

    def hold(self, channel: ChannelState, gate: Gate) -> None:
        """A channel waits for a saturated queue: tell its client, once."""
        if channel.held_by is not None or channel.detached:
            return
        connection = channel.connection
        channel.held_by = gate
        channel.held_since = channel.acceptor.now
        self.held[channel] = None
        self.ledger.begin(channel, gate, channel.acceptor.now)
        self.episodes.begin(channel, gate)
        log.info(
            "stop", reason=str(gate), connection=connection.id, channel=channel.number,
            client=connection.client, peer=connection.peer, user=connection.user,
        )  # fmt: skip
        early = channel.warned_by
        self.tell(channel, gate, self.take(channel, gate))
        if early is not None:
            channel.unwarn()

    def tell(self, channel: ChannelState, gate: Gate, means: Means) -> None:
        """Tell its client of a stop by these means, unless it knows."""
        connection = channel.connection
        if not channel.told_flow and connection not in self.paused and channel_flow.stops(connection, means):
            channel.told_flow = True
            self.tell_flow(channel, active=False)
        if channel.told_flow:
            self.ledger.acted(channel, "channel.flow")
        if means.blocked and (not channel.told_blocked or channel.warned_by is not gate):
            self.block(channel, gate)
        elif channel.told_blocked:
            self.ledger.acted(channel, "connection.blocked")

    def tell_flow(self, channel: ChannelState, *, active: bool) -> None:
        channel.obedience.told(channel.acceptor.now)
        channel.send("channel_flow", active=active)

    def published_on(self, channel: ChannelState, count: int, octets: int) -> None:
        """Publishes came from a channel that is told to stop: who ignores that is told no more, and paused at once, or
        closed.
        """
        connection = channel.connection
        read_since = connection.read_since if connection.reads else None
        if connection.ignores_flow or not channel.obedience.breached(count, octets, channel.acceptor.now, read_since):
            return
        self.ignoring.add(connection)
        connection.ignores_flow = True
        log.warning("flow ignored", connection=connection.id, channel=channel.number, client=connection.client,
                    peer=connection.peer, user=connection.user, messages=channel.obedience.count)  # fmt: skip
        if channel.acceptor.settings.flow.flow_ignored == "close":
            text = f"{channel.held_by or channel.warned_by}; published on though told to stop by channel.flow"
            connection.fail(amqp_error(506, text), keep_parked=True)

    def take(self, channel: ChannelState, gate: Gate) -> Means:
        """The terms on which a gate holds a channel: how long they are kept to, and the means."""
        means, ladder = self.terms.at(channel.vhost, channel.connection.user, gate.terms)
        self.escalations.begin(channel, gate, ladder)
        channel.budgets = self.escalations.budgets(channel, budgets_of(means))
        return means

    def take_terms(self) -> None:
        """Policies may say otherwise by now of how those are held who are; of who was refused nothing may wait."""
        for channel in list(self.held):
            self.review(channel)
            channel.release_if_free()

    def review(self, channel: ChannelState) -> None:
        """What a channel may park may be another amount than before."""
        if channel.held_by is not None:
            self.take(channel, channel.held_by)
        self.pause_or_resume(channel.connection)

    def block(self, channel: ChannelState, gate: Gate) -> None:
        """By connection.blocked: once for a connection, or again where the reason is another one."""
        connection = channel.connection
        first = connection.blocked_channels == 0
        again = channel.told_blocked
        if not again:
            channel.told_blocked = True
            self.ledger.acted(channel, "connection.blocked")
            connection.blocked_channels += 1
        if first or (again and reason_of(gate) != connection.told_reason):
            self.tell_blocked(connection, gate)

    def tell_blocked(self, connection: ConnectionState, gate: Gate) -> None:
        if connection.has_capability("connection.blocked"):
            connection.told_blocked = connection.acceptor.now
            connection.told_reason = reason_of(gate)
            connection.send(0, "connection_blocked", reason=connection.told_reason)
            self.updates.put(connection, connection.told_blocked + UPDATED_SECONDS)

    def look_at_cause(self, channel: ChannelState) -> None:
        """The gates that a channel waits at are others: what its client was told may not be in its way any more."""
        if channel.held_by is not None:
            self.unsure[channel] = None

    def tell_again(self, now: float) -> None:
        """Tell those who wait for something else by now than they were told, or for the same for long."""
        self.episodes.look()
        for channel in list(self.unsure):
            gate = channel.cause()
            if gate is None or gate is channel.held_by:
                del self.unsure[channel]
            elif now >= channel.connection.told_blocked + TOLD_AGAIN_SECONDS:
                del self.unsure[channel]
                self.change_cause(channel, gate, now)
        for connection in self.updates.take(now):
            self.update(connection)

    def change_cause(self, channel: ChannelState, gate: Gate, now: float) -> None:
        """Something else holds a channel by now than its client was told."""
        channel.held_by, connection = gate, channel.connection
        self.ledger.begin(channel, gate, now)
        self.episodes.begin(channel, gate)
        log.info(
            "still stopped", reason=str(gate), connection=connection.id, channel=channel.number,
            client=connection.client, peer=connection.peer, user=connection.user,
            held_seconds=round(now - channel.held_since, 3),
        )  # fmt: skip
        if self.take(channel, gate).blocked:
            self.block(channel, gate)

    def update(self, connection: ConnectionState) -> None:
        """Tell how what blocks a connection stands now, if it stands otherwise than it was told."""
        told = (channel for channel in connection.channels.values() if channel.told_blocked)
        gate = next((channel.held_by or channel.warned_by for channel in told), None)
        if gate is None:
            return
        if reason_of(gate) != connection.told_reason:
            self.tell_blocked(connection, gate)
        else:
            connection.told_blocked = connection.acceptor.now
            self.updates.put(connection, connection.told_blocked + UPDATED_SECONDS)

    def release(self, channel: ChannelState) -> None:
        """Nothing of the channel waits any more."""
        gate, connection = channel.held_by, channel.connection
        channel.held_by = None
        channel.budgets = 1
        self.escalations.end(channel)
        del self.held[channel]
        self.unsure.pop(channel, None)
        now = channel.acceptor.now
        self.ledger.end(channel, now)
        self.episodes.end(channel, "closed" if channel.closing else "free")
        log.info(
            "resume", held_seconds=round(now - channel.held_since, 3), connection=connection.id,
            channel=channel.number, client=connection.client, peer=connection.peer, user=connection.user,
            queue=str(gate),
        )  # fmt: skip
        self.untell(channel)
        self.pause_or_resume(connection)

    def untell(self, channel: ChannelState) -> None:
        """Tell its client that it may go on."""
        connection = channel.connection
        if channel.told_flow:
            channel.told_flow = False
            if not channel.closing:
                self.tell_flow(channel, active=True)
        if channel.told_blocked:
            channel.told_blocked = False
            connection.blocked_channels -= 1
            if connection.blocked_channels == 0 and connection.has_capability("connection.blocked"):
                connection.send(0, "connection_unblocked")

    def parked(self, channel: ChannelState, octets: int) -> None:
        """Something was parked (or is not any more, where `octets` is negative)."""
        connection = channel.connection
        self.parked_octets += octets
        kept = octets + RUN_OCTETS if octets > 0 else octets - RUN_OCTETS
        self.quotas.keep(connection, kept)
        if channel.detached:
            self.orphan_octets += octets
            return
        connection.kept_octets += kept
        connection.parked_octets += octets
        if octets > 0 or connection in self.paused:
            self.pause_or_resume(connection)

    def spooled(self, channel: ChannelState, run: ParkedRun, spool: Spool) -> ParkedRun:
        """A run that is to be parked, on disk if many are parked already: for all, or for its connection."""
        early = channel.connection.parked_octets >= self.most_relieved
        return spool.parked(run, self.quotas.kept + run.octets, early)

    def pause_or_resume(self, connection: ConnectionState) -> None:
        if connection in self.last_resort.closing:
            return
        if connection in self.paused:
            self.last_resort.is_spent(connection)
            if connection.parked_octets <= min(self.parking_octets // 2, self.budget(connection)):
                self.stop_drip(connection)
                self.episodes.unpaused(connection)
                connection.resume_reading(HELD)
        elif connection.parked_octets > self.budget(connection) and not connection.closing:
            self.paused[connection] = self.to_read[connection] = None
            self.drips.put(connection, connection.acceptor.now + connection.drip_seconds())
            for channel in connection.channels.values():
                self.ledger.acted(channel, "paused")
            self.episodes.paused(connection)
            connection.pause_reading(HELD)

    def budget(self, connection: ConnectionState) -> int:
        """Octets that may be parked before the socket is paused: more for those whose acks are still to come."""
        if connection.ignores_flow:
            return 0
        budgets = UNPAUSED_BUDGETS if connection.channels else 1
        for channel in connection.channels.values():
            if channel.budgets < budgets:
                budgets = channel.budgets
        if budgets and budgets < SETTLING_BUDGETS and connection.settles():
            budgets = SETTLING_BUDGETS
        return min(self.parking_octets * budgets, self.quotas.allowance(connection))

    def forget(self, connection: ConnectionState) -> None:
        """The connection is gone; its channels have been ended."""
        self.stop_drip(connection)
        self.updates.discard(connection)
        self.ledger.forget(connection.id)
        self.hung_up.discard(connection)
        self.ignoring.discard(connection)
        self.last_resort.forget(connection)

    # The drip

    def stop_drip(self, connection: ConnectionState) -> None:
        self.paused.pop(connection, None)
        self.to_read.pop(connection, None)
        self.drips.discard(connection)
        self.filled.pop(connection, None)
        self.last_resort.end(connection)

    def look_for_acks(self, connection: ConnectionState) -> None:
        """Of a paused connection something was read and more may follow, or it begins to have what it can ack."""
        if connection in self.paused:
            self.to_read[connection] = None

    def begins_to_settle(self, connection: ConnectionState) -> None:
        """A connection has begun to consume, or has got something."""
        self.look_for_acks(connection)
        for channel in connection.channels.values():
            if channel.warned_by is not None and channel_flow.acknowledges(connection):
                channel.unwarn()
        self.lift_flow(connection)

    def lift_flow(self, connection: ConnectionState) -> None:
        """Of a connection that has something to settle now: its channels that were stopped may go on sending."""
        stopped = [channel for channel in connection.channels.values() if channel.told_flow]
        if stopped and channel_flow.acknowledges(connection):
            for channel in stopped:
                channel.told_flow = False
                self.tell_flow(channel, active=True)

    def arrived(self, connection: ConnectionState) -> None:
        """Octets have come to a socket that is paused."""
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

        That is one whose client would not wait longer, or has overfilled its socket; and always one that consumes: its
        acks stand behind its publishes, and another held client may be waiting for the room they make. One whose peer
        has closed its side is read to the end as well. What is to be read once need not be asked for again before
        something came.
        """
        to_read, self.to_read = self.to_read, {}
        for connection in to_read:
            self.pause_or_resume(connection)
            if connection not in self.paused:
                continue
            if connection in self.hung_up or self.is_read_on(connection):
                connection.drip(SETTLING_OCTETS)
            elif not self.last_resort.may_read(connection):
                self.to_read[connection] = None  # its user's share may have room again
        self.relieve()
        for connection in self.drips.take(now):
            self.drips.put(connection, now + connection.drip_seconds())
            self.filled[connection] = None  # what comes out of order fills it as well, and is not told
            if connection.traits.impatient and self.last_resort.may_read(connection):
                connection.drip(connection.traits.drip_octets)
        self.last_resort.look(now)

    def is_read_on(self, connection: ConnectionState) -> bool:
        """Whether a paused connection is read at each look: at first, and for acks that may be awaited."""
        if connection.parked_octets >= self.most_parked and not connection.has_in_hand():
            return False
        return self.last_resort.may_read(connection)

    def relieve(self) -> None:
        """Of the sockets to which something came, read those that are overfull."""
        for connection in list(islice(self.filled, VISITED_AT_ONCE)):
            del self.filled[connection]
            if connection.parked_octets >= self.most_relieved or not self.last_resort.may_read(connection):
                self.filled[connection] = None
            elif connection.transport.is_overfull():
                self.filled[connection] = None
                connection.drip(RELIEF_OCTETS)
