"""Gets: each brings one message, of whatever size, so only so many are under way.

Of a connection that is `AT_ONCE`, and none while anything waits for its socket; of a user `OF_USER`, one where what
waits for its sockets is a fifth of its share (`acceptor.accounts`), and none where it is two fifths. A consume of a
connection that takes nothing goes the same way where that is a fifth: what is under way to a consumer that leaves has
room again at once, and so could be had again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.asking import Handling, Until
from acceptor.charges import Charges

if TYPE_CHECKING:
    from acceptor.accounts import Accounts
    from acceptor.channel_state import ChannelState
    from acceptor.connection_state import ConnectionState

AT_ONCE = 8
OF_USER = 32
PARTS = 5


class Gets:
    """`waiting` is what waits for sockets; `lines` are those that wait for a turn, by connection; `crowded` are the
    connections, by user, that only wait for others.
    """

    def __init__(self, waiting: Accounts) -> None:
        self.waiting = waiting
        self.under_way = Charges()
        self.lines: dict[ConnectionState, deque[tuple[ChannelState, Callable[[Any], None]]]] = {}
        self.crowded: dict[str, dict[ConnectionState, None]] = {}

    def turn(self, channel: ChannelState) -> Handling:
        """Wait until a connection may have one more under way; `got` gives the turn back."""
        connection = channel.connection
        if may_get(connection) and self.has_room(connection.user):
            self.begin(connection)
        else:
            yield Until(partial(self.wait, channel))

    def turn_to_consume(self, channel: ChannelState) -> Handling:
        """Wait, where a connection takes nothing and its user has its share, until it takes something."""
        connection = channel.connection
        if not connection.writable and self.are_few(connection.user):
            yield from self.turn(channel)
            self.got(connection)

    def wait(self, channel: ChannelState, resume: Callable[[Any], None]) -> None:
        connection = channel.connection
        self.lines.setdefault(connection, deque()).append((channel, resume))
        if may_get(connection):
            self.crowded.setdefault(connection.user, {})[connection] = None

    def has_room(self, user: str) -> bool:
        return self.under_way.users.get(user, 0) < self.at_once(user)

    def at_once(self, user: str) -> int:
        """How many may be under way to a user."""
        fifths = self.waiting.users.get(user, 0) * PARTS // self.waiting.of_user
        if fifths >= 2 or self.waiting.is_used_up(user):
            return 0
        return 1 if fifths else OF_USER

    def are_few(self, user: str) -> bool:
        """Whether so much waits for the sockets of a user that its gets go one by one, or not at all."""
        return self.at_once(user) < OF_USER

    def begin(self, connection: ConnectionState) -> None:
        connection.gets += 1
        self.under_way.charge(connection.user, 1)

    def got(self, connection: ConnectionState) -> None:
        connection.gets -= 1
        self.under_way.charge(connection.user, -1)
        self.serve(connection)
        if self.crowded:
            self.serve_user(connection.user)

    def serve(self, connection: ConnectionState) -> None:
        """Something of a connection has arrived, or its socket takes more."""
        line = self.lines.get(connection)
        while line and may_get(connection):
            if not self.has_room(connection.user):
                self.crowded.setdefault(connection.user, {})[connection] = None
                return
            channel, resume = line.popleft()
            if not channel.closing:
                self.begin(connection)
                resume(None)
        if not line:
            self.lines.pop(connection, None)

    def serve_user(self, user: str) -> None:
        """Those who waited for others of their user go in the order in which they came."""
        crowded = self.crowded.get(user)
        while crowded and self.has_room(user):
            connection = next(iter(crowded))
            del crowded[connection]
            self.serve(connection)
        if not crowded:
            self.crowded.pop(user, None)

    def look(self) -> None:
        """Often: shares may have room again."""
        for user in list(self.crowded):
            self.serve_user(user)

    def lost(self, connection: ConnectionState) -> None:
        self.lines.pop(connection, None)
        self.crowded.get(connection.user, {}).pop(connection, None)


def may_get(connection: ConnectionState) -> bool:
    """Whether one more may be under way to a connection, as far as it is concerned."""
    return connection.writable and connection.gets < AT_ONCE
