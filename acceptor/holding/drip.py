"""How paused sockets are read: a little now and then, so that their clients' connections survive.

A connection is read if its client would not wait longer (`acceptor.clients.traits`), or has overfilled its socket, or
consumes: its acks stand behind its publishes, and another held client may wait for the room that they make. One whose
peer has closed its side is read to the end.

A receive buffer that the client has overfilled is read once more, to restore the window that was offered: with segments
dropped at its edge the kernel accepts neither data nor acknowledgements, both sides' timers back off, and heartbeats
arrive too late in either direction.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from acceptor.gates.deadline_queue import DeadlineQueue

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.holding.last_resort import LastResort

# A paused connection is read on, quickly, until this many times the parking budget is parked: a close behind no more
# publishes than that is answered, and so are other channels.
DRIPS_AT_MOST = 8
# An overfull receive buffer is relieved until this many times the parking budget is parked, RELIEF_BYTES at a time:
# the buffer may hold a segment (64 KiB on loopback) too much, and its window opens again for no less than another.
RELIEVED_AT_MOST = 8
RELIEF_BYTES = 192 * 1024
# Bytes read at once from a paused connection that is read on at each poll.
SETTLING_BYTES = 64 * 1024
# Sockets that are checked for being overfull at each poll.
VISITED_AT_ONCE = 64


class Drip:
    """The paused connections of one acceptor. Times are seconds of the caller's clock.

    Those in `to_read` are read once, at the next poll; data that arrives enters them again. `visits` has when each is
    visited at the latest, data came to those in `filled`, and peers of `hung_up` ones have closed their side.
    """

    def __init__(self, parking_bytes: int, last_resort: LastResort) -> None:
        self.last_resort = last_resort
        self.most_parked = DRIPS_AT_MOST * parking_bytes
        self.most_relieved = RELIEVED_AT_MOST * parking_bytes
        self.paused: dict[ConnectionState, None] = {}
        self.hung_up: set[ConnectionState] = set()
        self.to_read: dict[ConnectionState, None] = {}
        self.visits: DeadlineQueue[ConnectionState] = DeadlineQueue()
        self.filled: dict[ConnectionState, None] = {}
        last_resort.stop_drip = self.stop

    def start(self, connection: ConnectionState) -> None:
        """Treat a connection as paused."""
        self.paused[connection] = self.to_read[connection] = None
        self.visits.put(connection, connection.acceptor.now + connection.drip_seconds())

    def stop(self, connection: ConnectionState) -> None:
        """Treat a connection as paused no longer."""
        self.paused.pop(connection, None)
        self.to_read.pop(connection, None)
        self.visits.discard(connection)
        self.filled.pop(connection, None)
        self.last_resort.end(connection)

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone."""
        self.stop(connection)
        self.hung_up.discard(connection)

    def read_soon(self, connection: ConnectionState) -> None:
        """Have a paused connection read at the next poll: more data or acks may follow."""
        if connection in self.paused:
            self.to_read[connection] = None

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

    def read(self, now: float) -> None:
        """Read a little from every paused connection that needs it."""
        to_read, self.to_read = self.to_read, {}
        for connection in to_read:
            if connection not in self.paused:
                continue
            if connection in self.hung_up or self.is_read_on(connection):
                connection.drip(SETTLING_BYTES)
            elif not self.last_resort.may_read(connection):
                self.to_read[connection] = None  # the share of its user may have room by the next poll
        self.relieve()
        for connection in self.visits.pop_due(now):
            self.visits.put(connection, now + connection.drip_seconds())
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
