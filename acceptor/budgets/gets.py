"""Gets in flight. They are limited, as each brings one message of whatever size.

A connection may have `AT_ONCE` of them, and none while output waits for its socket. A user may have `OF_USER`; one once
the output that waits for its sockets is a fifth of its share (`acceptor.budgets.accounts`), and none once it is two
fifths. From a fifth on, a consume of a connection whose socket accepts nothing also waits for a turn: messages in
flight to a consumer that leaves make room at once, and the same room could be used again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.budgets.charges import Charges
from acceptor.clients.asking import Handling, Until
from acceptor.clients.channel_stage import OPEN

if TYPE_CHECKING:
    from acceptor.budgets.accounts import Accounts
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState

AT_ONCE = 8
OF_USER = 32
PARTS = 5


class Gets:
    """The gets of one acceptor. `waiting` counts the output that waits for sockets; `lines` are the gets that wait for
    a turn, by connection; `crowded` are the connections, by user, that wait only for others.
    """

    def __init__(self, waiting: Accounts) -> None:
        self.waiting = waiting
        self.under_way = Charges()
        self.lines: dict[ConnectionState, deque[tuple[ChannelState, Callable[[Any], None]]]] = {}
        self.crowded: dict[str, dict[ConnectionState, None]] = {}

    def turn(self, channel: ChannelState) -> Handling:
        """Wait until the connection may have one more get in flight; `got` gives the turn back."""
        connection = channel.connection
        if may_get(connection) and self.has_room(connection.user):
            self.begin(connection)
        else:
            yield Until(partial(self.wait, channel))

    def turn_to_consume(self, channel: ChannelState) -> Handling:
        """Wait, if the connection's socket accepts nothing and its user is short of room, until the socket accepts
        output.
        """
        connection = channel.connection
        if not connection.writable and self.are_few(connection.user):
            yield from self.turn(channel)
            self.got(connection)

    def wait(self, channel: ChannelState, resume: Callable[[Any], None]) -> None:
        """Put a channel's handler into the line of its connection."""
        connection = channel.connection
        self.lines.setdefault(connection, deque()).append((channel, resume))
        if may_get(connection):
            self.crowded.setdefault(connection.user, {})[connection] = None

    def has_room(self, user: str) -> bool:
        """Whether a user may have one more get in flight."""
        return self.under_way.users.get(user, 0) < self.at_once(user)

    def at_once(self, user: str) -> int:
        """Return how many gets a user may have in flight."""
        fifths = self.waiting.users.get(user, 0) * PARTS // self.waiting.of_user
        if fifths >= 2 or self.waiting.is_used_up(user):
            return 0
        return 1 if fifths else OF_USER

    def are_few(self, user: str) -> bool:
        """Whether a user's unread output is large enough that its gets go one by one, or not at all."""
        return self.at_once(user) < OF_USER

    def begin(self, connection: ConnectionState) -> None:
        """Count a get as in flight."""
        connection.kept.gets += 1
        self.under_way.charge(connection.user, 1)

    def got(self, connection: ConnectionState) -> None:
        """Give back the turn of a get, and let waiting gets go."""
        connection.kept.gets -= 1
        self.under_way.charge(connection.user, -1)
        self.serve(connection)
        if self.crowded:
            self.serve_user(connection.user)

    def serve(self, connection: ConnectionState) -> None:
        """Let the waiting gets of a connection go, as one of its gets has arrived or its socket accepts more."""
        line = self.lines.get(connection)
        while line and may_get(connection):
            if not self.has_room(connection.user):
                self.crowded.setdefault(connection.user, {})[connection] = None
                return
            channel, resume = line.popleft()
            if channel.stage is OPEN:
                self.begin(connection)
                resume(None)
        if not line:
            self.lines.pop(connection, None)

    def serve_user(self, user: str) -> None:
        """Let gets that waited for other connections of their user go, in the order in which they came."""
        crowded = self.crowded.get(user)
        while crowded and self.has_room(user):
            connection = next(iter(crowded))
            del crowded[connection]
            self.serve(connection)
        if not crowded:
            self.crowded.pop(user, None)

    def recheck(self) -> None:
        """Recheck users whose shares may have room again; called often."""
        for user in list(self.crowded):
            self.serve_user(user)

    def lost(self, connection: ConnectionState) -> None:
        """Forget a closed connection."""
        self.lines.pop(connection, None)
        self.crowded.get(connection.user, {}).pop(connection, None)


def may_get(connection: ConnectionState) -> bool:
    """Whether the connection itself allows one more get in flight, whatever its user's limit."""
    return connection.writable and connection.kept.gets < AT_ONCE
