"""How a producer is held back, and let go: tell it, park what it sends on, read it slowly.

      free ──(a publish needs a saturated queue)──▶ held: told once, publishes are parked
      held ──(parked octets exceed the budget)──▶ paused: read by the drip
      paused ──(at most half of the parking budget is parked)──▶ held ──(nothing is parked)──▶ free: told again

A paused socket whose receive buffer the client has overfilled is read once more, to give back what it was offered: with
segments dropped at its edge the kernel takes neither data nor acknowledgements, both sides' timers back off, and
heartbeats arrive too late in either direction.

Told means Channel.Flow to a client known to honour it (never while its socket is not read: a publisher stuck in the
write would stop its reader), and connection.blocked to one that declared the capability. The pause is a drip: a small
read, often enough that the client's connection survives (`acceptor.clients`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.inlet import Gate
from penstock.logs import get_logger

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.connection import Connection

log = get_logger()

# A client that is not known to need the drip gets it until so many times the parking budget is parked.
DRIPS_AT_MOST = 4
# An overfilled receive buffer is relieved until so many times the parking budget is parked, and by so much at once:
# it may hold a segment (64 KiB on loopback) too much, and its window opens again for no less than another.
RELIEVED_AT_MOST = 8
RELIEF_OCTETS = 192 * 1024
# Who is told of one cause is not told of another before.
TOLD_AGAIN_SECONDS = 5.0
# Parking budgets of a connection that consumes as well.
SETTLING_BUDGETS = 16
# What is read at each re-check from a paused connection that consumes as well.
SETTLING_OCTETS = 64 * 1024


class Throttle:
    """Who is held, and whose socket is paused, in one acceptor. Times are seconds of the caller's clock."""

    def __init__(self, parking_octets: int) -> None:
        self.parking_octets = parking_octets
        self.most_parked = DRIPS_AT_MOST * parking_octets
        self.most_relieved = RELIEVED_AT_MOST * parking_octets
        self.held: dict[Channel, None] = {}
        self.paused: dict[Connection, float] = {}
        self.hung_up: set[Connection] = set()
        self.parked_octets = 0
        self.orphan_octets = 0

    def hold(self, channel: Channel, gate: Gate) -> None:
        """A channel waits for a saturated queue: tell its client, once."""
        if channel.held_by is not None or channel.detached:
            return
        connection = channel.connection
        channel.held_by = gate
        channel.held_since = channel.core.now
        self.held[channel] = None
        log.info("stop", reason=str(gate), connection=connection.id, channel=channel.number,
                 client=connection.client, peer=connection.peer, user=connection.user)  # fmt: skip
        if connection.traits.honours_flow and connection not in self.paused:
            channel.told_flow = True
            channel.send("channel_flow", active=False)
        connection.held_channels += 1
        if connection.held_channels == 1:
            self.tell_blocked(connection, gate)

    def tell_blocked(self, connection: Connection, gate: Gate) -> None:
        if connection.has_capability("connection.blocked"):
            connection.told_blocked = connection.core.now
            connection.send(0, "connection_blocked", reason=str(gate).encode()[:255].decode("utf-8", "ignore"))

    def tell_again(self, now: float) -> None:
        """Tell those who wait for something else by now than they were told, once in a while."""
        for channel in self.held:
            gate, connection = channel.cause(), channel.connection
            if gate is None or gate is channel.held_by or now < connection.told_blocked + TOLD_AGAIN_SECONDS:
                continue
            channel.held_by = gate
            log.info("still stopped", reason=str(gate), connection=connection.id, channel=channel.number,
                     client=connection.client, held_seconds=round(now - channel.held_since, 3))  # fmt: skip
            self.tell_blocked(connection, gate)

    def release(self, channel: Channel) -> None:
        """Nothing of the channel waits any more."""
        gate, connection = channel.held_by, channel.connection
        channel.held_by = None
        del self.held[channel]
        log.info("resume", held_seconds=round(channel.core.now - channel.held_since, 3), connection=connection.id,
                 channel=channel.number, client=connection.client, queue=str(gate))  # fmt: skip
        if channel.told_flow:
            channel.told_flow = False
            if not channel.closing:
                channel.send("channel_flow", active=True)
        connection.held_channels -= 1
        if connection.held_channels == 0 and connection.has_capability("connection.blocked"):
            connection.send(0, "connection_unblocked")

    def parked(self, channel: Channel, octets: int) -> None:
        """Parked contents came (or went, where `octets` is negative)."""
        self.parked_octets += octets
        if channel.detached:
            self.orphan_octets += octets
            return
        connection = channel.connection
        connection.parked_octets += octets
        if connection in self.paused:
            if connection.parked_octets <= self.parking_octets // 2:
                del self.paused[connection]
                connection.resume_reading()
        elif connection.parked_octets > self.budget(connection) and connection.reads:
            self.paused[connection] = channel.core.now + connection.drip_seconds()
            connection.pause_reading()

    def budget(self, connection: Connection) -> int:
        """Octets that may be parked before the socket is paused: more for those whose acks are still to come."""
        return self.parking_octets * (SETTLING_BUDGETS if connection.settles() else 1)

    def forget(self, connection: Connection) -> None:
        """The connection is gone; its channels have been ended."""
        self.paused.pop(connection, None)
        self.hung_up.discard(connection)

    def drip(self, now: float) -> None:
        """Read a little from every paused connection that needs it.

        That is one whose client would not wait longer, or has overfilled its socket; and always one that consumes: its
        acks stand behind its publishes, and another held client may be waiting for the room they make. One whose peer
        has closed its side is read to the end as well.
        """
        for connection, due in list(self.paused.items()):
            if connection.settles() or connection in self.hung_up:
                connection.drip(SETTLING_OCTETS)
            elif now >= due and (connection.traits.impatient or connection.parked_octets < self.most_parked):
                self.paused[connection] = now + connection.drip_seconds()
                connection.drip(connection.traits.drip_octets)
            elif connection.parked_octets < self.most_relieved and connection.transport.is_overfull():
                connection.drip(RELIEF_OCTETS)
