"""Telemetry rows for connections that were opened, closed or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.telemetry.schema import CONNECTION, ConnectionEvent

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState


class ConnectionRecord:
    """When a connection was opened (seconds of the core's clock), why it ends, and its number of channels then."""

    __slots__ = ("channels", "opened", "reason")

    def __init__(self) -> None:
        self.opened: float | None = None
        self.reason: str | None = None
        self.channels = 0

    def begins(self, connection: ConnectionState) -> None:
        """Record that the handshake is over."""
        self.opened = connection.acceptor.now
        connection.acceptor.counters.connections_opened += 1
        _record(connection, "open", 0, None, None)

    def ends(self, connection: ConnectionState, reason: str) -> None:
        """Record why the connection ends; the first reason counts."""
        if self.reason is None:
            self.reason, self.channels = reason, len(connection.channels)

    def is_over(self, connection: ConnectionState) -> None:
        """Record that the socket is closed. A connection that closed before it was open, without a reason, is not
        recorded.
        """
        if self.opened is not None:
            connection.acceptor.counters.connections_closed += 1
            open_ms = round((connection.acceptor.now - self.opened) * 1000)
            _record(connection, "close", self.channels, self.reason, open_ms)
        elif self.reason is not None:
            _record(connection, "refused", 0, self.reason, None)


def _record(
    connection: ConnectionState, event: ConnectionEvent, channels: int, reason: str | None, open_ms: int | None
) -> None:
    acceptor = connection.acceptor
    acceptor.record(
        CONNECTION,
        acceptor.time_us(),
        {
            "event": event,
            "acceptor": acceptor.index,
            "connection": connection.id,
            "peer": connection.client.peer,
            "product": connection.client.said("product"),
            "platform": connection.client.said("platform"),
            "product_version": connection.client.said("version"),
            "user": connection.user or None,
            "vhost": connection.access.vhost or None,
            "channels": channels,
            "reason": reason,
            "open_ms": open_ms,
        },
    )
