"""Output for clients that their sockets have not accepted.

      written ──(more waits than a write buffer)──▶ unsent: its consumers get nothing, its gets wait
      unsent ──(answers beyond their limit, or much waits for its user)──▶ not read
      not read ──(half of them has left, and little waits)──▶ unsent ──(the buffer has drained)──▶ written

Only answers (returns, gets, replies, confirms) count for that: a client that causes them by its input can always be
read later. A consuming client may be blocked in a write itself, and reads again once its output is read: deliveries
never keep it from being read. Which of the waiting bytes are deliveries is not known, only how many deliveries came: as
many of the waiting bytes as possible count as deliveries. Much waits for a user if its gets go one by one
(`acceptor.budgets.gets`): those of its connections that read continue to get messages.

While a socket accepts all output, nothing here is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.budgets.accounts import Accounts
from acceptor.budgets.charges import Charges
from acceptor.budgets.gets import Gets
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.pauses import OUTPUT

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState

# A connection is read, although much waits for its user, as long as no more bytes of answers than this wait for it.
LEAST_BYTES = 256 * 1024
# The bytes that wait for a socket before it counts as not writable. If a user has many connections, later ones get
# less: an eighth of the user's share, divided by the connections it has by then, but no less than the least.
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LEAST_BYTES = 64 * 1024
WRITE_PART = 8


class Unsent:
    """Bytes that wait for a socket: `charged` is all of them, `deliveries` how many of them may be deliveries."""

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
        """Record that a socket's write buffer is full, or has drained."""
        if writable:
            self.forget(connection)
            connection.resume_reading(OUTPUT)
            self.gets.serve(connection)
        else:
            self.unsent[connection] = Unsent(connection)

    def opened(self, connection: ConnectionState) -> None:
        """Count an open connection, whose user is known, and limit its write buffer."""
        self.open.charge(connection.user, 1)
        of_each = self.accounts.of_user // WRITE_PART // self.open.users[connection.user]
        connection.transport.limit_write_buffer(min(max(of_each, WRITE_LEAST_BYTES), WRITE_HIGH_BYTES))

    def forget(self, connection: ConnectionState) -> None:
        """Release a connection for whose socket nothing waits, or that is closed."""
        unsent = self.unsent.pop(connection, None)
        if unsent is not None:
            self.charge(connection, -unsent.charged)

    def charge(self, connection: ConnectionState, nbytes: int) -> None:
        """Charge waiting bytes to a connection's user; fewer if negative."""
        self.accounts.charge(connection.user, nbytes)
        self.waiting.charge(connection.user, nbytes)

    def lost(self, connection: ConnectionState, *, opened: bool) -> None:
        """Forget a closed connection, which was open once or was not."""
        self.forget(connection)
        if opened:
            self.open.charge(connection.user, -1)
        self.gets.lost(connection)

    def waits(self, connection: ConnectionState) -> int:
        """Return the bytes that waited for its socket when output was last written, 0 if the socket accepts all."""
        unsent = self.unsent.get(connection)
        return 0 if unsent is None else unsent.charged

    def is_over(self, connection: ConnectionState) -> bool:
        """Whether more waits for its socket than is allowed, or than its user may have."""
        waits = self.waits(connection)
        return waits > self.limit or (waits > LEAST_BYTES and self.accounts.is_used_up(connection.user))

    def wrote(self, connection: ConnectionState) -> None:
        """Count output written to a socket that accepts no more; stop or resume reading by what waits."""
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
            if answers <= self.limit // 2 and waits <= self.most and (not full or answers <= LEAST_BYTES):
                connection.resume_reading(OUTPUT)
        elif connection.stage is OPEN and (
            answers > self.limit or waits > self.most or (full and answers > LEAST_BYTES)
        ):
            connection.pause_reading(OUTPUT)

    def recheck(self) -> None:
        """Recheck whether less waits; called often."""
        for connection in list(self.unsent):
            self.wrote(connection)
        self.gets.recheck()
