"""A client's socket with TLS: between the loop and the `ClientProtocol` of its connection."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from typing import TYPE_CHECKING, Any

from acceptor.clients.addresses import address_of
from acceptor.clients.tls_facts import TlsFacts
from acceptor.sockets.client_protocol import ClientProtocol, peer_of
from acceptor.sockets.tls_transport import TlsTransport
from acceptor.tls.stream import TlsStream
from acceptor.tls.tls_stage import TLS, TlsEvent, TlsStage
from penstock.amqp.spec import PROTOCOL_HEADER
from penstock.node.logs import get_logger
from penstock.states.transitions import Staged
from penstock.tls.certificates import subject_of, user_of
from penstock.tls.errors import TlsError, reason

if TYPE_CHECKING:
    from acceptor.sockets.arrivals import Arrivals
    from acceptor.sockets.handshake_turns import HandshakeTurns
    from acceptor.sockets.sockets import Sockets
    from acceptor.tls.tls_listener import TlsListener

log = get_logger()

HELLO_BYTES = 16 * 1024
"""Bytes read at once before AMQP is spoken: a client's first message, or its certificates."""
UNASKED_MOST = 64 * 1024
"""Bytes that TLS itself has to send (answers to KeyUpdate) and that a client does not read."""


def has_hung_up(descriptor: int) -> bool:
    """Whether the peer of a socket has closed it, or its side of it."""
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP)
    return bool(poller.poll(0))


class TlsProtocol(Staged[TlsStage, TlsEvent], asyncio.BufferedProtocol):
    """One client's socket of a listener with TLS. What it pauses, drips, counts and watches is ciphertext."""

    transitions = TLS

    def __init__(
        self, sockets: Sockets[ClientProtocol], arrivals: Arrivals, turns: HandshakeTurns, listener: TlsListener
    ) -> None:
        self.sockets = sockets
        self.arrivals = arrivals
        self.turns = turns
        self.listener = listener
        self.address: tuple[str, int] | None = None
        self.stage = TlsStage.HELLO
        self.transport: Any = None
        self.stream: TlsStream | None = None
        self.inner: ClientProtocol | None = None
        self.peer = self.host = ""
        self.first = b""
        self.unasked = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the client's first message, or abort if the limit of open files is near."""
        self.transport = transport
        self.address = self.address or peer_of(transport)
        self.peer, self.host = f"{self.address[0]}:{self.address[1]}", address_of(self.address[0])
        if self.sockets.have_room_for(self.peer):
            self.arrivals.arrived(self)
        else:
            self.end()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read, as long as that (or a drip) may be, and put the rest of the last one
        where its plaintext goes on.
        """
        size = HELLO_BYTES if self.inner is None else len(self.inner.get_buffer(sizehint))
        return self.sockets.ciphertext[:size]

    def buffer_updated(self, received: int) -> None:
        """Process a read."""
        ciphertext = self.sockets.ciphertext[:received]
        if self.inner is not None:
            self.read(ciphertext, self.inner)
        elif self.stage is TlsStage.HELLO:
            self.greet(bytes(ciphertext))
        elif self.stage is TlsStage.HANDSHAKE:
            self.step(bytes(ciphertext))

    def greet(self, first: bytes) -> None:
        """The client's first message has come: wait for a turn."""
        if first.startswith(PROTOCOL_HEADER[:4]):
            self.refuse("a client speaks AMQP without TLS at a listener with TLS", "")
            return
        self.first = first
        self.happened(TlsEvent.FIRST_MESSAGE)
        self.transport.pause_reading()
        if not self.turns.ask(self):
            self.refuse("TLS handshake refused", "too many at once")

    def turn(self) -> None:
        """Make the costly step of the handshake, unless the client has given up: while it waits, its socket is not
        read, and its end not noticed.
        """
        self.happened(TlsEvent.TURN)
        if has_hung_up(self.transport.get_extra_info("socket").fileno()):
            self.end()
            return
        first, self.first = self.first, b""
        self.stream = TlsStream(self.listener.context)
        self.transport.resume_reading()
        self.step(first)

    def step(self, ciphertext: bytes) -> None:
        """Go on with the handshake; once it is complete, AMQP is spoken."""
        assert self.stream is not None
        began = time.perf_counter()
        try:
            complete = self.stream.shake_hands(ciphertext)
        except ssl.SSLError as error:
            self.fail(error)
            return
        self.turns.took(time.perf_counter() - began)
        self.answer()
        if complete:
            self.open(self.stream)

    def open(self, stream: TlsStream) -> None:
        """The handshake is complete: make the connection, and give it what the client has sent already."""
        try:
            facts = self.facts(stream)
        except TlsError as error:
            self.refuse("TLS handshake failed", str(error))
            return
        self.left()
        self.happened(TlsEvent.COMPLETE)
        self.inner = ClientProtocol(self.sockets, facts)
        self.inner.address = self.address
        self.inner.connection_made(TlsTransport(self.transport, stream))
        self.read(self.sockets.ciphertext[:0], self.inner)

    def facts(self, stream: TlsStream) -> TlsFacts:
        """Return the facts of the session. TlsError if the client's certificate cannot be read."""
        certificate = stream.certificate()
        if certificate is None:
            return TlsFacts(stream.version(), stream.cipher())
        user = user_of(certificate, self.listener.settings.login_from)
        return TlsFacts(stream.version(), stream.cipher(), True, subject_of(certificate), user)

    def read(self, ciphertext: memoryview, inner: ClientProtocol) -> None:
        """Decrypt a read, and pass it on."""
        assert self.stream is not None
        if inner.lingers:
            return
        self.stream.forgive(self.sockets.loop.time())
        try:
            length = self.stream.decrypt(ciphertext, self.sockets.buffer[len(inner.rest) :])
        except ssl.SSLError as error:
            self.fail(error)
            return
        self.answer()
        inner.buffer_updated(length)
        if self.stream.ended and not self.transport.is_closing():
            self.transport.close()

    def answer(self) -> None:
        """Write what TLS itself has to send."""
        assert self.stream is not None
        output = self.stream.output()
        if not output or self.transport.is_closing():
            return
        if not self.transport.get_write_buffer_size():
            self.unasked = 0
        self.unasked += len(output)
        self.transport.write(output)
        if self.unasked > UNASKED_MOST and self.transport.get_write_buffer_size():
            self.refuse("TLS session ended", "the client reads none of the answers that it asks for")

    def fail(self, error: ssl.SSLError) -> None:
        """The session has failed: send the alert, and hang up."""
        assert self.stream is not None
        what = "TLS handshake failed" if self.inner is None else "TLS session failed"
        log.info(what, peer=self.peer, listener=self.listener.name, reason=reason(error))
        if alert := self.stream.output():
            self.transport.write(alert)
        self.end()

    def refuse(self, what: str, why: str) -> None:
        """Log a reason, and hang up."""
        log.info(what, peer=self.peer, listener=self.listener.name, **({"reason": why} if why else {}))
        self.end()

    def end(self) -> None:
        """Hang up. Output that the kernel has not accepted is dropped: its client may never read it."""
        self.left()
        self.happened(TlsEvent.END)
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def late(self) -> None:
        """Hang up, as the time is over."""
        self.refuse("TLS handshake timed out", "")

    def left(self) -> None:
        """The handshake is complete, or the client has gone."""
        if self.arrivals.left(self):
            self.turns.left(self)

    # From the transport to the connection

    def eof_received(self) -> bool:
        """Have the transport close once the client has closed its side."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the closed socket and end its connection."""
        self.left()
        self.happened(TlsEvent.END)
        if self.inner is not None:
            self.inner.connection_lost(error)

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer has drained."""
        if self.inner is not None:
            self.inner.resume_writing()
