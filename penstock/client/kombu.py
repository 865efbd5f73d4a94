"""The transport `penstock://` of kombu, and so of Celery: py-amqp that waits for room for a limited time.

    import penstock.client.kombu

    penstock.client.kombu.register()
    app = Celery("shop", broker="penstock://guest:guest@127.0.0.1//")
    app.conf.broker_transport_options = {"confirm_timeout": 5}  # seconds

At a full queue `apply_async` then raises Unconfirmed or Stopped. Neither is to kombu an error of the connection, after
which it would publish again.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.client.extra import needs_extra
from penstock.client.unconfirmed import Destination

with needs_extra("kombu"):
    from amqp.exceptions import RecoverableConnectionError
    from kombu.transport import TRANSPORT_ALIASES, pyamqp

    from penstock.client.amqp_link import LimitedConnection
    from penstock.client.publisher import Publisher

KEPT: Final = "kept_penstock_connection"
"""The attribute of kombu's connection for a connection that is kept."""


def register() -> None:
    """Let URLs begin with `penstock://`, or with `penstocks://` for TLS."""
    TRANSPORT_ALIASES["penstock"] = f"{__name__}:Transport"
    TRANSPORT_ALIASES["penstocks"] = f"{__name__}:SSLTransport"


class Channel(pyamqp.Channel):
    """A channel whose publishes go over other channels of the connection, and whose calls wait for a limited time."""

    connection: PublishingConnection

    def basic_publish(
        self,
        msg: Any,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
        timeout: float | None = None,
        confirm_timeout: float | None = None,
    ) -> None:
        """Publish and wait for the confirm, `confirm_timeout` or else `timeout` seconds at most (default: those of the
        connection).

        Stopped, Unconfirmed, Rejected, Unroutable: see `Publisher.publish`.
        """
        if self.connection is None:
            raise RecoverableConnectionError("basic_publish: connection closed")
        self.connection.publisher.publish(
            msg,
            Destination(exchange, routing_key),
            {"mandatory": mandatory, "immediate": immediate},
            confirm_timeout or timeout or self.connection.confirm_timeout,
        )

    basic_publish_confirm = basic_publish

    def tx_select(self) -> None:
        """NotImplementedError: the publishes of a transaction would have to be on its channel."""
        raise NotImplementedError("no transactions over penstock://: use amqp://")

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for the answer to a call. Unanswered if it does not come in time."""
        if self.connection is None:
            raise RecoverableConnectionError("connection already closed")
        return self.connection.answer(lambda: super(Channel, self).wait(*arguments, **options))


class PublishingConnection(LimitedConnection):
    """The connection of one kombu connection."""

    Channel = Channel

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.publisher = Publisher(self)


class Transport(pyamqp.Transport):
    """The transport of `penstock://`.

    kombu closes a pooled connection at each error of a publish. If the error was want of room, the connection is kept
    for the time when kombu opens it again: on a new one, each attempt would leave one more message waiting for room.
    """

    Connection = PublishingConnection

    def establish_connection(self) -> PublishingConnection:
        """Connect, or return the connection that was kept."""
        kept: PublishingConnection | None = vars(self.client).pop(KEPT, None)
        if kept is not None and kept.connected:
            kept.client = self.client
            return kept
        connection: PublishingConnection = super().establish_connection()  # type: ignore[no-untyped-call]
        return connection

    def close_connection(self, connection: PublishingConnection) -> None:
        """Close a connection, or keep it."""
        pool = getattr(self.client, "_pool", None)
        if connection.publisher.sound and connection.connected and pool is not None and pool.limit:
            connection.client = None
            vars(self.client)[KEPT] = connection
        else:
            super().close_connection(connection)  # type: ignore[no-untyped-call]


class SSLTransport(Transport, pyamqp.SSLTransport):
    """The transport of `penstocks://`."""
