"""The state of one connection, for all parts that work on it; what it does is acceptor/amqp/connection.py.

An acceptor's state knows its connections, a connection its channels, a channel its consumers, and each of them the one
that it belongs to: these four modules are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from acceptor.clients.client import Client
from acceptor.clients.connection_stage import CONNECTION, OPEN, OVER, ConnectionEvent, ConnectionStage
from acceptor.clients.kept import Kept
from acceptor.clients.notices import ConnectionNotices
from acceptor.clients.pauses import HELD
from acceptor.gates.permissions import Access
from acceptor.routing.routing import Budget
from penstock.amqp import methods_cy as methods
from penstock.amqp.encode_cy import Output
from penstock.amqp.errors import AMQPError
from penstock.amqp.scan_cy import Scanner
from penstock.batch.batch_cy import Batch
from penstock.node.logs import get_logger
from penstock.states.transitions import Staged

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState

log = get_logger()

# Before tune some clients put long tokens into start-ok (RabbitMQ 4.1 and later allow this much).
FRAME_BEFORE_TUNE = 8192


class Transport(Protocol):
    """The socket as the connection sees it."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def drip(self, nbytes: int) -> None: ...
    def limit_receive_buffer(self, nbytes: int) -> None: ...
    def limit_write_buffer(self, nbytes: int) -> None: ...
    def is_overfull(self) -> bool: ...
    def is_filled(self) -> bool: ...
    def unsent(self) -> int: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


class ConnectionState(Staged[ConnectionStage, ConnectionEvent], ABC):
    """The state of one connection. Times are seconds of the acceptor's clock."""

    transitions = CONNECTION

    def __init__(
        self, acceptor: AcceptorState, id: str, number: int, transport: Transport, client: Client, access: Access
    ) -> None:  # fmt: skip
        self.acceptor = acceptor
        self.id = id
        self.number = number
        self.transport = transport
        self.client = client
        self.scanner = Scanner(FRAME_BEFORE_TUNE, acceptor.settings.amqp.max_message_size, acceptor.arena)
        self.output = Output()
        self.stage = ConnectionStage.HEADER
        self.channels: dict[int, ChannelState] = {}
        self.channel_max = 0
        self.frame_max = FRAME_BEFORE_TUNE
        self.heartbeat = 0
        self.user = ""
        self.owns_queues = False
        self.access = access
        self.notices = ConnectionNotices()
        self.kept = Kept()
        self.deliveries_withheld = False
        self.pauses = 0
        self.read_since = acceptor.now
        self.last_sent = acceptor.now
        self.writable = True
        self.delivered = 0
        self.unreported = 0
        self.budget = Budget()

    def send(self, channel: int, name: str, **arguments: Any) -> None:
        """Write a method, unless the last word has been written."""
        if self.stage is OPEN or self.stage not in OVER:
            self.write(methods.frame(channel, name, **arguments))

    def write(self, frame: bytes) -> None:
        """Write a frame."""
        self.output.write(frame)
        self.acceptor.dirty[self] = None

    def write_contents(
        self, channel: int, prefix: bytes, tag: int, redelivered: bool, suffix: bytes, batch: Batch, first: int,
        count: int,
    ) -> None:  # fmt: skip
        """Write the frames of a range of a batch (see `encode_cy.Output.contents`)."""
        self.output.contents(channel, prefix, tag, redelivered, suffix, batch, first, count, self.frame_max)
        self.acceptor.dirty[self] = None

    def log_error(self, error: AMQPError, channel: int) -> None:
        """Log an error of the client, on a channel or (0) the connection."""
        log.warning("client error", code=error.code, text=error.text, connection=self.id, channel=channel,
                    peer=self.client.peer, user=self.user, client=self.client.name)  # fmt: skip

    def whose(self) -> dict[str, Any]:
        """Return the fields that identify the connection in log lines and answers."""
        return {
            "connection": self.id, "peer": self.client.peer, "client": self.client.name, "user": self.user,
            "vhost": self.access.vhost,
        }  # fmt: skip

    @property
    def reads(self) -> bool:
        """Whether the socket is read other than by the drip."""
        return not self.pauses

    def drip(self, nbytes: int) -> None:
        """Read a little from the paused socket, if it is paused for parked publishes only, or not open any more."""
        if self.stage is not OPEN or not self.pauses & ~HELD:
            self.transport.drip(nbytes)

    def drip_seconds(self) -> float:
        """Return the interval of the drip in seconds."""
        traits = self.client.traits
        beats = traits.drip_heartbeats * self.heartbeat
        return min(beats, traits.drip_seconds) if beats else traits.drip_seconds

    def settles(self) -> bool:
        """Whether the client may make room: it consumes, has unacked deliveries, or acks to commit."""
        return any(channel.settles() for channel in self.channels.values())

    def has_in_hand(self) -> bool:
        """Whether the client has unacked deliveries, or settlements to commit."""
        return any(channel.has_in_hand() for channel in self.channels.values())

    @abstractmethod
    def log_in(self, mechanism: str, user: str, password: str | None) -> None:
        """Request a decision on a login; without a password a certificate has shown who the client is. Methods that the
        client sends ahead are held until then.
        """

    @abstractmethod
    def close(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        """End all channels and send connection.close with the reason."""

    @abstractmethod
    def tick(self, now: float) -> None:
        """Enforce deadlines and send heartbeats; called once a second."""

    @abstractmethod
    def fail(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        """Close the connection for a hard error."""

    @abstractmethod
    def broken(self, error: Exception) -> None:
        """End this connection, and no other, for a bug of ours."""

    @abstractmethod
    def pause_reading(self, why: int) -> None:
        """Stop reading the socket for a reason (`acceptor.clients.pauses`), until no reason is left."""

    @abstractmethod
    def resume_reading(self, why: int) -> None:
        """Remove reasons not to read the socket; without any left it is read again."""

    @abstractmethod
    def hang_up(self) -> None:
        """Close the socket once all output has been sent."""

    @abstractmethod
    def forget_channel(self, channel: ChannelState) -> None:
        """Free the number of a channel whose end is agreed on."""
