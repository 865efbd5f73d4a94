"""The clients of one port: how many there are, and how much they leave unread.

Beyond the bound of connections, the client that has kept its connection waiting for a request for the longest loses it
to a new one; if all have requests under way, the new one is refused. So clients that send nothing, or that send slowly,
keep nobody out. Beyond the bound of unread answers, the client that has left its answer unread for the longest is hung
up on.
"""

from __future__ import annotations

from typing import Protocol

UNREAD_MOST = 64 * 1024 * 1024
"""Bytes of answers that clients have not read, of all that are larger than the buffers of their connections."""


class Client(Protocol):
    """A client's connection (`console.http.connection`)."""

    stands_since: float | None
    """Since when the client has read nothing of an answer that is not written yet."""

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has a request to send, in whole or its rest."""

    def shutdown(self) -> None:
        """End the connection once its request is answered."""

    def hang_up(self) -> None:
        """End the connection now."""


class Crowd:
    """The connections of one port, `most` of them at once."""

    def __init__(self, most: int, idle_seconds: float) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._waiting: dict[Client, float] = {}
        self._unread: dict[Client, int] = {}
        self.present: set[Client] = set()

    def has_room(self, arriving: int) -> bool:
        """Whether a new connection may come, beside those that are arriving; makes room if it can."""
        if len(self.present) + arriving < self._most:
            return True
        longest = next((each for each in self._waiting if each.waits_for_client), None)
        if longest is None:
            return False
        longest.hang_up()
        return True

    def waits(self, connection: Client, now: float) -> None:
        """A connection waits for a request from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = now

    def leaves_unread(self, connection: Client, size: int) -> None:
        """So many bytes of an answer wait until the client reads; 0: no longer."""
        if size == 0:
            self._unread.pop(connection, None)
            return
        grown = size > self._unread.get(connection, 0)
        self._unread[connection] = size
        while grown and len(self._unread) > 1 and sum(self._unread.values()) > UNREAD_MOST:
            next(each for each in self._unread if each is not connection).hang_up()

    def leave(self, connection: Client) -> None:
        """A connection is over."""
        self.present.discard(connection)
        self._waiting.pop(connection, None)
        self._unread.pop(connection, None)

    def tick(self, now: float) -> None:
        """Hang up on clients that take too long to send a request, or to read an answer; called once a second."""
        for connection in list(self.present):
            since = connection.stands_since or self._waiting[connection]
            if (connection.stands_since or connection.waits_for_client) and now - since > self._idle_seconds:
                connection.hang_up()
