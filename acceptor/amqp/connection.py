"""One connection without its socket: bytes in, bytes out (AMQP 0-9-1, 2.2 and 4.2).

Its stages, from the protocol header to the end, are in acceptor/clients/connection_stage.py. Handlers raise errors, and
this module acts on them: a channel's error closes the channel; a connection's sends connection.close, after which
everything but the answer is ignored.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.amqp import handshake
from acceptor.amqp.channel import Channel
from acceptor.amqp.connection_record import ConnectionRecord
from acceptor.amqp.read_size import LARGE_READ_BYTES, MANY_EVENTS, READ_BYTES, ReadSize
from acceptor.budgets.unfinished import LEAST_BYTES as UNFINISHED_BYTES
from acceptor.budgets.unread import WHY
from acceptor.clients.channel_stage import ChannelEvent, ChannelStage
from acceptor.clients.client import Client
from acceptor.clients.connection_stage import (
    ENDING,
    HANDSHAKE,
    OPEN,
    OVER,
    UNDECIDED,
    ConnectionEvent,
    ConnectionStage,
)
from acceptor.clients.connection_state import ConnectionState, Transport
from acceptor.clients.pauses import HELD, LOGIN
from acceptor.gates.rights import InternalRights, Undecided
from acceptor.links.contained import contained
from acceptor.logins.backend import Decision, Identity
from penstock.amqp import methods_cy as methods
from penstock.amqp.errors import AMQPError, HardError, amqp_error
from penstock.amqp.scan_cy import Failure, Method, Oversize, PublishRun, SettleRun
from penstock.amqp.spec import BY_NAME, PROTOCOL_HEADER, MethodSpec
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState

log = get_logger()

HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
"""The protocol headers that are accepted: AMQP 0-9-1, and 0-9 as RabbitMQ takes it."""
TLS_HELLO = b"\x16\x03"
"""The beginning of a client's first message in TLS (RFC 8446, 5.1)."""
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
# How long a peer may take to answer our close, to answer it where its answer cannot be read, and to close its socket.
CLOSE_SECONDS = 10.0
UNREADABLE_SECONDS = 1.0
LINGER_SECONDS = 5.0
UPDATE_SECRET = BY_NAME["connection_update_secret"]
UNREADABLE = (501, 502, 503, 504, 505)
"""Errors of frames, syntax, commands and channels: before the connection is open, nothing more is sent after one."""
# The death of a client whose socket is paused and full shows only by the reset that data sent to it brings. So a client
# that has agreed to no heartbeats is sent one this often meanwhile; clients ignore it (pika logs it).
PROBE_SECONDS = 10.0


class Connection(ConnectionState):
    """One connection: its handshake, its channels, and its end.

    `ahead` has what the client has sent while its login, or its right to a vhost, is being decided. At `deadline` it is
    hung up on. `identity` is that of the client, once it is known.
    """

    def __init__(self, services: Services, id: str, number: int, transport: Transport, client: Client) -> None:
        acceptor = services.acceptor
        super().__init__(acceptor, id, number, transport, client, services.permissions.access(nobody(acceptor), ""))
        self.services = services
        self.ahead: list[Method] = []
        self.identity: Identity | None = None
        self.stay = ConnectionRecord()
        self.read_size = ReadSize()
        self.last_received = acceptor.now
        self.deadline: float | None = acceptor.now + acceptor.settings.amqp.handshake_timeout

    # Bytes in

    def receive(self, data: Any, end: int) -> int:
        """Process the bytes of a buffer up to `end`. Return how many were used: the caller passes the rest again."""
        self.last_received = self.acceptor.now
        start = 0
        if self.stage is not OPEN and self.stage is ConnectionStage.HEADER:
            if end < 8:
                if not any(header.startswith(bytes(data[:end])) for header in HEADERS):
                    self.refuse_protocol(bytes(data[:end]))
                    return end
                return 0
            if bytes(data[:8]) not in HEADERS:
                self.refuse_protocol(bytes(data[:8]))
                return end
            self.happened(ConnectionEvent.HEADER)
            handshake.start(self)
            start = 8
        events: list[object] = []
        used = self.scanner.scan(data, start, end, events)
        if self.scanner.unfinished > UNFINISHED_BYTES or self.kept.unfinished:
            self.services.unfinished.recount(self)
        if len(events) > MANY_EVENTS or self.read_size.nbytes < READ_BYTES:
            self.read_size.adapt(len(events))
        for event in events:
            if self.stage is not OPEN and self.stage in OVER:
                break
            try:
                self.process(event)
            except Exception as error:
                self.broken(error)
        if self.pauses & HELD:
            self.services.holding.drip.read_soon(self)
        return used

    def read_bytes(self) -> int:
        """Return the size of the next read in bytes: larger while it brings large bodies and nothing is parked."""
        return LARGE_READ_BYTES if self.scanner.large and not self.kept.parked else self.read_size.nbytes

    def refuse_protocol(self, data: bytes) -> None:
        """Answer a wrong protocol header with ours, and close (AMQP 0-9-1, 4.2.2)."""
        what = "a client speaks TLS at a listener without" if data.startswith(TLS_HELLO) else "no AMQP 0-9-1 client"
        log.info(what, peer=self.client.peer, sent=data.decode("latin-1"))
        self.stay.ends(self, what)
        self.output.write(PROTOCOL_HEADER)
        self.finish(ConnectionEvent.OTHER_HEADER)

    def process(self, event: object) -> None:
        """Process one event of the scanner."""
        if isinstance(event, PublishRun):
            channel = self.channel(event.channel)
            if channel is not None:
                channel.take_publishes(event)
        elif isinstance(event, SettleRun):
            channel = self.channel(event.channel)
            if channel is not None:
                channel.take_settlements(event)
        elif isinstance(event, Method):
            self.take_method(event)
        elif isinstance(event, Failure):
            self.fail(amqp_error(event.code, event.text))
        elif isinstance(event, Oversize):
            channel = self.channel(event.channel)
            if channel is not None:
                channel.take_oversize(event.size)

    def channel(self, number: int) -> ChannelState | None:
        """Return the open channel of that number. If there is none the connection fails, and None is returned."""
        if self.stage is OPEN:
            channel = self.channels.get(number)
            if channel is None:
                self.fail(amqp_error(504, "expected 'channel.open'"))
            return channel
        if self.stage in HANDSHAKE:
            self.fail(amqp_error(503, "a channel is used before the connection is open"))
        return None

    def take_method(self, frame: Method) -> None:
        """Decode a method and pass it on, or hold it until the login, or the right to the vhost, is decided."""
        if self.stage is not OPEN and self.stage in UNDECIDED:
            self.ahead.append(frame)
            return
        method: MethodSpec | None = None
        try:
            method, arguments = methods.decode(frame.payload)
            if frame.channel == 0 or self.stage is not OPEN:
                self.connection_method(frame.channel, method, arguments)
            elif method.name == "channel_open":
                self.open_channel(frame.channel)
            else:
                channel = self.channel(frame.channel)
                if channel is not None:
                    channel.take_method(frame, method, arguments)
        except Undecided as undecided:
            self.ahead.append(frame)
            self.happened(ConnectionEvent.UNDECIDED)
            self.pause_reading(LOGIN)
            undecided.start(self.vhost_decided)
        except AMQPError as error:
            if method is not None and not error.class_id:
                error.class_id, error.method_id = method.class_id, method.method_id
            self.fail(error)

    # Class connection

    def connection_method(self, channel: int, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """Handle a method of class connection, or any that comes while the connection is not open."""
        ends = self.stage in ENDING
        if self.stage in OVER or (ends and channel):
            return
        if method.name == "connection_close":
            self.close_asked(arguments)
        elif method.name == "connection_close_ok":
            self.hang_up(ConnectionEvent.CLOSE_OK)
        elif ends:
            return
        elif self.stage is not OPEN and channel == 0:
            self.shake_hands(method, arguments)
        elif method.name == "connection_update_secret" and channel == 0:
            self.renew(arguments["new_secret"])
        elif method.name not in ("connection_blocked", "connection_unblocked"):
            raise amqp_error(503, f"unexpected method {method.amqp_name} on channel {channel}", method)

    def shake_hands(self, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """Take the next step of the handshake. A refused client is closed after a delay."""
        try:
            handshake.step(self, self.services, method, arguments)
        except handshake.Refused as refused:
            log.warning("handshake refused", peer=self.client.peer, reason=str(refused))
            self.stay.ends(self, str(refused))
            self.scanner.failed = True
            self.happened(ConnectionEvent.UNREADABLE_LOGIN)
            self.deadline = self.acceptor.now + handshake.REFUSAL_SECONDS
        else:
            if self.stage is OPEN:
                self.deadline = None
                self.services.outputs.opened(self)
                self.services.silence.begin(self)
                log.info("connection open", **self.whose())
                self.stay.begins(self)

    def log_in(self, mechanism: str, user: str, password: str | None) -> None:
        """Request a decision on a login; without a password a certificate has shown who the client is. Methods that the
        client sends ahead are held until then.
        """
        self.happened(ConnectionEvent.START_OK)
        decided = partial(self.login_decided, mechanism, user, self.acceptor.now)
        logins, host = self.services.logins, self.client.host
        if password is None:
            logins.recognize(user, host, decided)
        else:
            logins.check(user, password, host, decided)
        if self.stage is ConnectionStage.LOGIN:
            self.pause_reading(LOGIN)

    @contained
    def login_decided(self, mechanism: str, user: str, asked: float, decision: Decision) -> None:
        """The login requested at `asked` is decided."""
        ahead, self.ahead = self.ahead, []
        if self.stage is not ConnectionStage.LOGIN:
            return
        if isinstance(decision, Identity):
            self.happened(ConnectionEvent.ACCEPTED)
            self.resume_reading(LOGIN)
            self.identity, self.user = decision, decision.rights.user
            self.access = self.services.permissions.access(decision.rights, "")
            handshake.tune(self)
            for frame in ahead:
                self.take_method(frame)
            return
        self.happened(ConnectionEvent.REFUSED)
        self.resume_reading(LOGIN)
        log.warning("login refused", peer=self.client.peer, user=user, reason=decision)
        self.stay.ends(self, f"login of user '{user}' refused: {decision}")
        self.scanner.failed = True
        # Counted from the request: the time that the answer takes must not reveal the reason.
        wait = asked + handshake.REFUSAL_SECONDS - self.acceptor.now
        self.acceptor.later(wait, partial(self.refuse_login, mechanism))

    @contained
    def refuse_login(self, mechanism: str) -> None:
        """Close with 403 if the client declared that it expects that (authentication_failure_close), else hang up."""
        if self.stage is not ConnectionStage.REFUSED:
            return
        text = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        if self.client.has_capability("authentication_failure_close"):
            self.scanner.failed = False
            error = amqp_error(403, text)
            self.log_error(error, 0)
            self.close(error)
        else:
            self.hang_up()

    @contained
    def vhost_decided(self, _answer: object) -> None:
        """The service has said whether the user may open the vhost: go on with connection.open."""
        ahead, self.ahead = self.ahead, []
        if self.stage is ConnectionStage.VHOST:
            self.happened(ConnectionEvent.DECIDED)
            self.resume_reading(LOGIN)
            for frame in ahead:
                self.take_method(frame)

    def renew(self, secret: bytes) -> None:
        """Have the backend that has accepted the client decide on a new secret."""
        assert self.identity is not None
        self.identity.backend.renew(self.identity, secret.decode("utf-8", "replace"), self.renewed)

    @contained
    def renewed(self, decision: Decision) -> None:
        """The new secret is decided: the client has other rights, until another time. 530 if it is refused."""
        if self.stage is not OPEN:
            return
        rights = self.access.rights
        if not isinstance(decision, Identity):
            log.warning("new secret refused", connection=self.id, peer=self.client.peer, user=self.user,
                        reason=decision)  # fmt: skip
            self.fail(amqp_error(530, "New secret was refused by one of the backends", UPDATE_SECRET))
        elif decision.rights != rights and not decision.rights.may_open(self.access.vhost):
            text = f"access to vhost '{self.access.vhost}' refused for user '{self.user}'"
            self.fail(amqp_error(530, text, UPDATE_SECRET))
        else:
            self.identity = decision
            self.access = self.services.permissions.access(decision.rights, self.access.vhost)
            self.send(0, "connection_update_secret_ok")
            if decision.rights != rights:
                for channel in list(self.channels.values()):
                    channel.rights_change(self.access)

    def open_channel(self, number: int) -> None:
        """Open a channel. AMQPError if its number is in use, or a limit is reached."""
        if number in self.channels:
            raise amqp_error(504, "second 'channel.open' seen")
        if len(self.channels) >= self.channel_max:  # RabbitMQ counts channels; any number will do
            raise amqp_error(
                530,
                f"number of channels opened ({self.channel_max}) has reached the negotiated channel_max "
                f"({self.channel_max})",
            )
        self.services.headcount.open_channel(self)
        self.channels[number] = Channel(self, number, self.services)
        self.acceptor.counters.channels_opened += 1
        self.send(number, "channel_open_ok")

    def forget_channel(self, channel: ChannelState) -> None:
        """Remove a channel that the client has closed, or whose close it has answered."""
        if self.channels.pop(channel.number, None) is not None:
            self.acceptor.counters.channels_closed += 1
            self.services.headcount.channels_are_gone(self, 1)

    # Time

    @contained
    def tick(self, now: float) -> None:
        """Enforce deadlines and send heartbeats (AMQP 0-9-1, 4.2.7); called once a second."""
        if self.identity is not None and self.identity.expires is not None:
            self.end_if_expired(self.identity.expires)
        if self.deadline is not None and now >= self.deadline:
            if self.stage in HANDSHAKE:
                log.info("handshake timed out", peer=self.client.peer)
                self.stay.ends(self, "handshake timed out")
            self.hang_up()
        elif self.heartbeat and self.stage is OPEN:
            if now - self.last_sent >= self.heartbeat / 2:
                self.output.write(HEARTBEAT)
                self.acceptor.dirty[self] = None
        elif not self.reads and self.stage not in HANDSHAKE and now - self.last_sent >= PROBE_SECONDS:
            self.output.write(HEARTBEAT)
            self.acceptor.dirty[self] = None

    def end_if_expired(self, expires: float) -> None:
        """Close the connection if its client's token has expired. The client may connect again with another one."""
        if self.acceptor.wall() >= expires and (self.stage is OPEN or self.stage in HANDSHAKE):
            log.info("token expired", connection=self.id, peer=self.client.peer, user=self.user)
            self.close(forced(f"the token of user '{self.user}' has expired"))

    def miss_heartbeats(self) -> None:
        """Hang up: nothing came in the time in which the client has agreed to send heartbeats."""
        silent = round(self.acceptor.now - self.last_received, 3)
        log.info("missed heartbeats", connection=self.id, peer=self.client.peer, seconds=silent)
        self.stay.ends(self, "missed heartbeats")
        self.hang_up()

    def pause_reading(self, why: int) -> None:
        """Stop reading the socket for a reason (`acceptor.clients.pauses`), until no reason is left."""
        if not self.pauses:
            self.transport.pause_reading()
        if why in WHY and not self.pauses & why:
            self.services.unread.begins(self, why)
        self.pauses |= why

    def resume_reading(self, why: int) -> None:
        """Remove reasons not to read the socket; without any left it is read again."""
        if self.pauses & why:
            self.pauses &= ~why
            if self in self.services.unread.since:
                self.services.unread.ends(self, why)
            if not self.pauses:
                self.read_since = self.last_received = self.acceptor.now
                self.transport.resume_reading()

    # The end

    def fail(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        """Log an error that the connection does not survive, and close it."""
        if self.stage is OPEN or self.stage in HANDSHAKE:
            self.log_error(error, 0)
            if self.stage is not OPEN and error.code in UNREADABLE:
                self.give_up(error)
            else:
                self.close(error, keep_parked=keep_parked)

    def broken(self, error: Exception) -> None:
        """End this connection, and no other, for a bug of ours."""
        log.error("internal error", connection=self.id, peer=self.client.peer, user=self.user, exc_info=error)
        try:
            self.fail(amqp_error(541, "internal error"))
        except Exception:
            log.exception("connection cannot be closed in order", connection=self.id, peer=self.client.peer)
            self.transport.close()

    def give_up(self, error: AMQPError) -> None:
        """Close without another word: the peer does not speak the protocol (AMQP 0-9-1, 2.2.4)."""
        self.stay.ends(self, error.reply_text)
        self.scanner.abandon()
        self.services.unfinished.forget(self)
        self.resume_reading(self.pauses)
        self.finish(ConnectionEvent.HANG_UP)

    def close(self, error: AMQPError, *, keep_parked: bool = False) -> None:
        """Send connection.close, and wait for the answer until a deadline. Parked publishes are kept on request."""
        self.stay.ends(self, error.reply_text)
        self.end_channels(keep_parked=keep_parked)
        self.send(
            0,
            "connection_close",
            reply_code=error.code,
            reply_text=error.reply_text,
            class_id=error.class_id,
            method_id=error.method_id,
        )
        self.happened(ConnectionEvent.ERROR)
        self.scanner.abandon()
        self.services.unfinished.forget(self)
        # After a frame error nothing that follows can be read, not even close-ok.
        self.deadline = self.acceptor.now + (UNREADABLE_SECONDS if self.scanner.failed else CLOSE_SECONDS)
        if self not in self.services.holding.last_resort.closing:
            self.resume_reading(self.pauses)
        self.services.requests.delete_exclusive(self, lambda: None)

    def close_asked(self, arguments: dict[str, Any]) -> None:
        """Close at the client's request: its exclusive queues are deleted before close-ok is sent."""
        if self.stage in ENDING:
            self.send(0, "connection_close_ok")
            self.finish(ConnectionEvent.CLOSE)
            return
        log.info("connection closed", connection=self.id, peer=self.client.peer, user=self.user,
                 code=arguments["reply_code"], text=arguments["reply_text"])  # fmt: skip
        self.stay.ends(self, f"closed by the client: {arguments['reply_code']} {arguments['reply_text']}")
        self.end_channels(keep_parked=True)
        self.happened(ConnectionEvent.CLOSE)
        self.deadline = self.acceptor.now + CLOSE_SECONDS

        def answer() -> None:
            if self.stage is ConnectionStage.LEAVING:
                self.send(0, "connection_close_ok")
                self.finish(ConnectionEvent.QUEUES_DELETED)

        self.services.requests.delete_exclusive(self, answer)

    def end_channels(self, *, keep_parked: bool) -> None:
        """End all channels. Their parked publishes outlive them if `keep_parked`."""
        for channel in self.channels.values():
            if channel.stage is ChannelStage.OPEN:
                channel.end(ChannelEvent.CONNECTION_ENDS, keep_parked=keep_parked)
            else:
                channel.happened(ChannelEvent.CONNECTION_ENDS)
        self.acceptor.counters.channels_closed += len(self.channels)
        self.services.headcount.channels_are_gone(self, len(self.channels))
        self.channels.clear()

    def finish(self, event: ConnectionEvent) -> None:
        """Flush the last method, and leave it to the client to close the socket: if the broker did, unread data would
        make the kernel reset the connection, and the method might be lost (RFC 1122, 4.2.2.13).
        """
        self.acceptor.flush(self)
        self.happened(event)
        self.deadline = self.acceptor.now + LINGER_SECONDS
        self.transport.finish()

    def hang_up(self, event: ConnectionEvent = ConnectionEvent.HANG_UP) -> None:
        """Close the socket once all output has been sent."""
        if self.stage not in OVER:
            self.acceptor.flush(self)
        self.happened(event)
        self.transport.close()

    def lost(self) -> None:
        """The socket is gone: end the channels, keep their parked publishes, delete exclusive queues."""
        was_open = self.stage in (OPEN, ConnectionStage.DROPPED)
        self.happened(ConnectionEvent.LOST)
        self.scanner.end()
        if was_open:
            log.info(
                "connection lost", connection=self.id, peer=self.client.peer, user=self.user, client=self.client.name
            )
            self.stay.ends(self, "connection lost")
        self.end_channels(keep_parked=True)
        if was_open:
            self.services.requests.delete_exclusive(self, lambda: None)
        self.forget()
        self.stay.is_over(self)

    def forget(self) -> None:
        """Have all parts of the acceptor forget the connection."""
        services = self.services
        self.acceptor.connections.pop(self.id, None)
        services.headcount.connection_is_gone(self)
        services.delivery.forget_connection(self)
        services.outputs.lost(self, opened=self.stay.opened is not None)
        services.unfinished.forget(self)
        services.unread.forget(self)
        services.silence.forget(self)
        services.holding.forget(self)


def nobody(acceptor: AcceptorState) -> InternalRights:
    """Return the rights of a client that has not logged in."""
    return InternalRights(acceptor.topology.users, "")


def forced(text: str) -> HardError:
    """Return the error (320) by which an operator, or a shutdown, closes a connection."""
    return HardError(320, text)
