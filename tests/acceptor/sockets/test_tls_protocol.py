"""A client's real socket with TLS, with the core of an acceptor behind it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from acceptor.amqp.read_size import LARGE_READ_BYTES
from acceptor.sockets.arrivals import Arrivals
from acceptor.sockets.handshake_turns import HandshakeTurns
from acceptor.sockets.tls_protocol import TlsProtocol
from acceptor.tls.tls_listener import TlsListener
from acceptor.tls.tls_stage import TlsStage
from penstock.settings.listeners import ListenerSettings, LoginFrom
from penstock.tls.contexts import outer_context
from tests import certificates
from tests.acceptor.sockets.test_client_protocol import START_OK, Served, until
from tests.certificates import ClientSession
from tests.frames import PROTOCOL_HEADER, method_frame
from tests.waiting import PATIENCE

EXTERNAL = method_frame(
    "connection.start-ok", 0, client_properties={}, mechanism="EXTERNAL", response=b"", locale="en_US"
)


class Meeting:
    """One client, and the protocol of its socket at the acceptor."""

    def __init__(self, node: Served, arrivals: Arrivals, protocol: TlsProtocol, client: socket.socket) -> None:
        self.node = node
        self.arrivals = arrivals
        self.protocol = protocol
        self.client = client

    @property
    def events(self) -> list[str]:
        """The events that were logged."""
        return [line["event"] for line in self.node.logs]

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def receive(self) -> bytes:
        """Return the next bytes; none if the acceptor has closed its side."""
        return await asyncio.get_running_loop().sock_recv(self.client, 1 << 16)

    async def shake_hands(self, context: ssl.SSLContext | None = None) -> Session:
        """Complete the handshake."""
        session = ClientSession(context)
        done = session.shake_hands()
        await self.send(session.output())
        while not done:
            done = session.shake_hands(await self.receive())
            await self.send(session.output())
        await until(lambda: self.protocol.stage is TlsStage.OPEN)
        return Session(self, session)


class Session:
    """A client whose handshake is complete."""

    def __init__(self, meeting: Meeting, session: ClientSession) -> None:
        self.meeting = meeting
        self.session = session
        self.read = b""

    async def send(self, plaintext: bytes) -> None:
        await self.meeting.send(self.session.write(plaintext))

    async def receive(self, count: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        while len(self.read) < count:
            ciphertext = await self.meeting.receive()
            if not ciphertext:
                break
            self.read += self.session.read(ciphertext)
        found, self.read = self.read[:count], self.read[count:]
        return found

    async def receive_method(self) -> tuple[int, int]:
        """Return the class and method of the next frame."""
        header = await self.receive(7)
        frame = await self.receive(int.from_bytes(header[3:7], "big") + 1)
        return int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")

    async def open(self) -> None:
        """Go on until tune."""
        await self.send(PROTOCOL_HEADER)
        assert await self.receive_method() == (10, 10)
        await self.send(START_OK)
        assert await self.receive_method() == (10, 30)


def run(
    scenario: Callable[[Meeting], Awaitable[None]], settings: ListenerSettings | None = None, timeout: float = 1000.0
) -> None:
    """Run a scenario with one client that has connected."""

    async def within() -> None:
        loop = asyncio.get_running_loop()
        met: list[TlsProtocol] = []
        configured = certificates.settings() if settings is None else settings
        listener = TlsListener("public", configured, outer_context(configured))

        with Served() as node, socket.socket() as client:
            arrivals, turns = Arrivals(node.sockets, timeout), HandshakeTurns(node.sockets)
            node.sockets.ciphertext = memoryview(bytearray(LARGE_READ_BYTES))

            def made() -> TlsProtocol:
                met.append(TlsProtocol(node.sockets, arrivals, turns, listener))
                return met[-1]

            server = await loop.create_server(made, "127.0.0.1", 0)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await until(lambda: met and met[0].transport is not None)
            await asyncio.wait_for(scenario(Meeting(node, arrivals, met[0], client)), PATIENCE)
            server.close()
            if not met[0].transport.is_closing():
                met[0].transport.abort()
            await until(lambda: met[0].stage is TlsStage.OVER and not node.sockets.protocols)
            assert node.sockets.arriving == 0

    uvloop.run(within())


def with_clients(*, wanted: str = "required") -> ListenerSettings:
    """Return the settings of a listener that takes certificates of clients."""
    authorities = certificates.authority().directory / "authority.pem"
    return certificates.settings(client_certificates=wanted, client_authorities=authorities)


def test_amqp_is_spoken_in_tls() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.open()
        assert meeting.protocol.inner is not None and meeting.protocol.inner.connection is not None
        tls = meeting.protocol.inner.connection.client.tls
        assert tls is not None and tls.version == "TLSv1.3" and not tls.has_certificate

    run(scenario)


def test_a_handshake_may_come_byte_by_byte_and_amqp_with_its_end() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = ClientSession()
        session.shake_hands()
        for one in session.output():
            await meeting.send(bytes([one]))
            await asyncio.sleep(0)
        while not session.shake_hands(await meeting.receive()):
            pass
        await meeting.send(session.output() + session.write(PROTOCOL_HEADER))
        assert await Session(meeting, session).receive_method() == (10, 10)

    run(scenario)


def test_a_client_that_has_given_up_before_its_turn_costs_no_handshake() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = ClientSession()
        session.shake_hands()
        meeting.client.sendall(session.output())
        meeting.client.close()
        await until(lambda: meeting.protocol.stage is TlsStage.OVER)
        assert meeting.protocol.stream is None

    run(scenario)


def test_the_user_is_the_one_that_the_certificate_names() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands(certificates.client_context(certificates.client("guest")))
        await session.send(PROTOCOL_HEADER)
        assert await session.receive_method() == (10, 10)
        await session.send(EXTERNAL)
        assert await session.receive_method() == (10, 30)
        assert meeting.protocol.inner is not None and meeting.protocol.inner.connection is not None
        assert meeting.protocol.inner.connection.user == "guest"

    run(scenario, with_clients())


def refusal(certificate: Path | None, settings: ListenerSettings) -> str:
    """Return the reason for which a client that says EXTERNAL is not let in."""
    reasons: list[str] = []

    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands(certificates.client_context(certificate))
        await session.send(PROTOCOL_HEADER)
        assert await session.receive_method() == (10, 10)
        await session.send(EXTERNAL)
        await until(lambda: {"login refused", "handshake refused"} & {*meeting.events})
        reasons.extend(line["reason"] for line in meeting.node.logs if "reason" in line)

    run(scenario, settings)
    return reasons[0]


def test_without_a_certificate_or_with_one_that_names_no_user_nobody_is_let_in() -> None:
    optional = with_clients(wanted="optional")
    assert refusal(None, optional) == "EXTERNAL without a certificate"
    assert refusal(certificates.client("nobody"), optional) == "there is no such user"
    by_address = optional.model_copy(update={"login_from": LoginFrom.EMAIL})
    reason = refusal(certificates.client("guest"), by_address)
    assert reason == "the certificate names no user in the part that login_from says"


def test_a_wrong_client_is_told_so_by_an_alert_and_logged() -> None:
    async def scenario(meeting: Meeting) -> None:
        context = certificates.client_context()
        context.load_cert_chain(certificates.foreign_client())
        session = ClientSession(context)
        session.shake_hands()
        await meeting.send(session.output())
        while not session.shake_hands(await meeting.receive()):
            pass
        await meeting.send(session.output())
        alert = b""
        while more := await meeting.receive():
            alert += more
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            session.read(alert)
        assert meeting.events == ["TLS handshake failed"] and "CERTIFICATE" in meeting.node.logs[0]["reason"].upper()

    run(scenario, with_clients())


def test_amqp_without_tls_is_named_and_hung_up_on() -> None:
    async def scenario(meeting: Meeting) -> None:
        await meeting.send(PROTOCOL_HEADER)
        assert await meeting.receive() == b""
        assert meeting.events == ["a client speaks AMQP without TLS at a listener with TLS"]

    run(scenario)


def test_bytes_that_are_no_tls_are_hung_up_on() -> None:
    async def scenario(meeting: Meeting) -> None:
        await meeting.send(b"GET / HTTP/1.1\r\n\r\n")
        while await meeting.receive():
            pass
        assert meeting.events == ["TLS handshake failed"]

    run(scenario)


def test_a_client_that_does_not_complete_its_handshake_is_hung_up_on() -> None:
    async def scenario(meeting: Meeting) -> None:
        await until(lambda: meeting.node.sockets.arriving)
        meeting.arrivals.tick()
        assert await meeting.receive() == b""
        assert meeting.events == ["TLS handshake timed out"]

    run(scenario, timeout=0.0)


def test_the_last_word_is_followed_by_the_end_of_our_side() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.send(b"GET / HTTP/1.1\r\n")
        assert await session.receive(100) == PROTOCOL_HEADER
        await session.send(b"more, which nobody reads" * 100)
        meeting.client.shutdown(socket.SHUT_WR)
        await until(lambda: not meeting.node.sockets.protocols)

    run(scenario)


def test_a_client_may_close_its_side() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.open()
        try:
            session.session.session.unwrap()
        except ssl.SSLWantReadError:
            await meeting.send(session.session.output())
        await until(lambda: not meeting.node.sockets.protocols)

    run(scenario)


def test_a_spoilt_record_ends_its_session_only() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.open()
        ciphertext = bytearray(session.session.write(b"\x08\0\0\0\0\0\0\xce"))
        ciphertext[-1] ^= 1
        await meeting.send(bytes(ciphertext))
        await until(lambda: not meeting.node.sockets.protocols)
        assert "TLS session failed" in meeting.events

    run(scenario)


def test_a_paused_socket_is_not_read_and_a_drip_reads_no_more_than_it_may() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.open()
        inner = meeting.protocol.inner
        assert inner is not None
        inner.pause_reading()
        await session.send(b"\x01\0\0" + (8000).to_bytes(4, "big") + b"x" * 3000)  # a part of a frame
        for _ in range(5):
            await asyncio.sleep(0)
        assert inner.rest == b""
        inner.drip(3200)
        await until(lambda: inner.rest)
        assert not inner.dripping and not meeting.protocol.transport.is_reading()

    run(scenario)


def test_a_session_that_fails_ends_though_its_client_reads_nothing() -> None:
    async def scenario(meeting: Meeting) -> None:
        session = await meeting.shake_hands()
        await session.open()
        assert meeting.protocol.inner is not None
        meeting.protocol.inner.write([bytes(1 << 20)] * 8)
        assert meeting.protocol.transport.get_write_buffer_size()
        ciphertext = bytearray(session.session.write(b"\x08\0\0\0\0\0\0\xce"))
        ciphertext[-1] ^= 1
        await meeting.send(bytes(ciphertext))
        await until(lambda: not meeting.node.sockets.protocols)

    run(scenario)
