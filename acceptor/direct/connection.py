"""A direct connection: one without a socket, for one request of a user of the HTTP interface.

Its channel does what a client's does, with the same rights, limits and flow control. What would be written to a socket
is kept for the request. Nothing of it outlives the request: publishes that still wait for room are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from acceptor.clients.channel_stage import OPEN as CHANNEL_OPEN
from acceptor.clients.channel_stage import ChannelEvent
from acceptor.clients.client import Client
from acceptor.clients.connection_stage import OPEN, ConnectionEvent
from acceptor.clients.connection_state import ConnectionState
from acceptor.direct.channel import DirectChannel
from penstock.amqp.encode_cy import GET_OK, RETURN
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.batch.batch_cy import Batch
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.clients.channel_state import ChannelState
    from acceptor.gates.rights import Rights

log = get_logger()

CHANNEL = 1
FRAME_MAX = (1 << 32) - 1


class Contents(NamedTuple):
    """A message that a get has brought. `remaining` counts the ready messages behind it."""

    tag: int
    redelivered: bool
    remaining: int
    address: bytes
    header: bytes
    body: bytes


class DirectConnection(ConnectionState):
    """A direct connection and its only channel. `answers` has the last method of each name that it was sent."""

    def __init__(self, services: Services, rights: Rights, host: str, vhost: str) -> None:
        state = services.acceptor
        number = state.next_connection()
        id = f"{state.index}.{state.incarnation}.{number}"
        client = Client(f"{host} over HTTP", host)
        super().__init__(state, id, number, _NoSocket(), client, services.permissions.access(rights, vhost))
        self.services = services
        self.user = rights.user
        self.stage = OPEN
        self.scanner.frame_max = FRAME_MAX
        self.answers: dict[str, dict[str, Any]] = {}
        self.got: Contents | None = None
        self.returned: int | None = None
        self.channel = DirectChannel(self, CHANNEL, services)
        self.channels[CHANNEL] = self.channel

    # Out

    def send(self, channel: int, name: str, **arguments: Any) -> None:
        """Keep a method as an answer."""
        self.answers[name] = arguments

    def write_contents(
        self, channel: int, prefix: bytes, tag: int, redelivered: bool, suffix: bytes, batch: Batch, first: int,
        count: int,
    ) -> None:  # fmt: skip
        """Keep a message that was asked for, or the reply code of one that is returned."""
        if prefix == GET_OK:
            self.got = Contents(tag, redelivered, int.from_bytes(suffix, "big"), *batch.record(first))
        elif prefix.startswith(RETURN):
            self.returned = int.from_bytes(prefix[len(RETURN) : len(RETURN) + 2], "big")

    # The end

    def end(self) -> None:
        """End the channel, requeue what it has not settled, and have all parts of the acceptor forget both."""
        if self.channel.stage is CHANNEL_OPEN:
            self.channel.end(ChannelEvent.CONNECTION_ENDS, keep_parked=False)
        self.channels.clear()
        if self.stage is OPEN:
            self.happened(ConnectionEvent.LOST)
        services = self.services
        services.delivery.forget_connection(self)
        services.outputs.lost(self, opened=False)
        services.unfinished.forget(self)
        services.holding.forget(self)

    def fail(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        """End the channel: the request fails."""
        self.channel.fail(error)

    def close(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        self.channel.fail(error)

    def broken(self, error: Exception) -> None:
        """End the channel for a bug of ours."""
        log.error("internal error", connection=self.id, peer=self.client.peer, user=self.user, exc_info=error)
        self.channel.fail(amqp_error(541, "internal error"))

    # There is no socket to read or to close, and no handshake

    def log_in(self, mechanism: str, user: str, password: str | None) -> None:
        raise NotImplementedError

    def tick(self, now: float) -> None: ...

    def pause_reading(self, why: int) -> None: ...

    def resume_reading(self, why: int) -> None: ...

    def hang_up(self) -> None: ...

    def forget_channel(self, channel: ChannelState) -> None: ...


class _NoSocket:
    """The transport of a connection without a socket."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def drip(self, nbytes: int) -> None: ...

    def limit_receive_buffer(self, nbytes: int) -> None: ...

    def limit_write_buffer(self, nbytes: int) -> None: ...

    def is_overfull(self) -> bool:
        return False

    def is_filled(self) -> bool:
        return False

    def unsent(self) -> int:
        return 0

    def finish(self) -> None: ...

    def close(self) -> None: ...
