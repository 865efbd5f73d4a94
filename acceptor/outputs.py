"""What was written for clients that their sockets have not taken.

      written ──(more waits than a write buffer)──▶ unsent: its consumers get nothing, its gets wait
      unsent ──(answers beyond their limit, or its user has much that waits)──▶ not read
      not read ──(half of them has left, and little waits)──▶ unsent ──(the buffer has drained)──▶ written

Only answers (returns, gets, replies, confirms) count for that: a client that makes them by what it sends can always be
read later. One that consumes may be stuck in a write itself, and reads again once that is taken: deliveries never keep
it from being read. Which of the octets that wait are deliveries is not known, only how many came: as many of those that
wait count as deliveries as may be. A user has much that waits where its gets go one by one (`acceptor.gets`): those of
its connections that read go on getting.

While a socket takes all, nothing here is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.accounts import Accounts
from acceptor.charges import Charges
from acceptor.gets import Gets
from acceptor.pauses import OUTPUT

if TYPE_CHECKING:
    from acceptor.connection_state import ConnectionState
    from acceptor.state import AcceptorState

# A connection is read, though its user has much that waits, as long as no more answers than that wait for it.
LEAST_OCTETS = 256 * 1024
# What waits for a socket before it counts as taking nothing: where a user has many connections less for the later ones,
# this part of its share for as many of them as there are by then, but no less than the least.
WRITE_HIGH_OCTETS = 1024 * 1024
WRITE_LEAST_OCTETS = 64 * 1024
WRITE_PART = 8


class Unsent:
    """What waits for a socket, octets: all that is `charged`, and how much of it may be deliveries."""

    __slots__ = ("charged", "deliveries", "seen")

    def __init__(self, connection: ConnectionState) -> None:
        self.charged = 0
        self.deliveries = connection.transport.unsent()
        self.seen = connection.delivered


class Outputs:
    """The connections of an acceptor whose sockets take less than is written for them."""

    def __init__(self, acceptor: AcceptorState, accounts: Accounts) -> None:
        self.acceptor = acceptor
        self.accounts = accounts
        self.limit = acceptor.settings.amqp.output_bytes
        self.most = self.limit + acceptor.settings.shards * acceptor.settings.flow.connection_window_bytes
        self.most += acceptor.settings.amqp.max_message_size
        self.unsent: dict[ConnectionState, Unsent] = {}
        self.waiting = Accounts(acceptor.settings)
        self.gets = Gets(self.waiting)
        self.open = Charges()

    def writable(self, connection: ConnectionState, writable: bool) -> None:
        """A socket's write buffer is full, or has drained."""
        if writable:
            self.forget(connection)
            connection.resume_reading(OUTPUT)
            self.gets.serve(connection)
        else:
            self.unsent[connection] = Unsent(connection)

    def opened(self, connection: ConnectionState) -> None:
        """A connection is open: its user is known."""
        self.open.charge(connection.user, 1)
        of_each = self.accounts.of_user // WRITE_PART // self.open.users[connection.user]
        connection.transport.limit_write_buffer(min(max(of_each, WRITE_LEAST_OCTETS), WRITE_HIGH_OCTETS))

    def forget(self, connection: ConnectionState) -> None:
        """Nothing waits for its socket, or it is gone."""
        unsent = self.unsent.pop(connection, None)
        if unsent is not None:
            self.charge(connection, -unsent.charged)

    def charge(self, connection: ConnectionState, octets: int) -> None:
        self.accounts.charge(connection.user, octets)
        self.waiting.charge(connection.user, octets)

    def lost(self, connection: ConnectionState) -> None:
        self.forget(connection)
        if connection.expected is None:
            self.open.charge(connection.user, -1)
        self.gets.lost(connection)

    def waits(self, connection: ConnectionState) -> int:
        """Octets that waited for its socket when something was written last, 0 if it takes all."""
        unsent = self.unsent.get(connection)
        return 0 if unsent is None else unsent.charged

    def is_over(self, connection: ConnectionState) -> bool:
        """Whether more waits for its socket than may, or than its user may have."""
        waits = self.waits(connection)
        return waits > self.limit or (waits > LEAST_OCTETS and self.accounts.is_used_up(connection.user))

    def wrote(self, connection: ConnectionState) -> None:
        """More was written to a socket that takes no more."""
        unsent = self.unsent.get(connection)
        if unsent is None:
            return
        waits = connection.transport.unsent()
        unsent.deliveries = min(unsent.deliveries + connection.delivered - unsent.seen, waits)
        unsent.seen = connection.delivered
        self.charge(connection, waits - unsent.charged)
        unsent.charged = waits
        answers = waits - unsent.deliveries
        full = self.accounts.is_used_up(connection.user) or self.gets.are_few(connection.user)
        if connection.pauses & OUTPUT:
            if answers <= self.limit // 2 and waits <= self.most and (not full or answers <= LEAST_OCTETS):
                connection.resume_reading(OUTPUT)
        elif not connection.closing and (
            answers > self.limit or waits > self.most or (full and answers > LEAST_OCTETS)
        ):
            connection.pause_reading(OUTPUT)

    def look(self) -> None:
        """Often: what waits may have become less."""
        for connection in list(self.unsent):
            self.wrote(connection)
        self.gets.look()
