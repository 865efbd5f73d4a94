"""A TLS session without its socket, with a client of OpenSSL's at the other end."""

from __future__ import annotations

import random
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.tls.stream import EMPTY_MOST, EMPTY_SECONDS, RECORD_BYTES, SLICE_BYTES, TlsStream
from penstock.tls.contexts import choose, inner_contexts, outer_context
from tests import certificates
from tests.certificates import ClientSession
from tests.openssl import UPDATE_BYTES, OpenSslSession

SIZES = st.lists(st.integers(0, 3 * SLICE_BYTES), max_size=6)


def server_context(**changes: object) -> ssl.SSLContext:
    """Return the context of a listener, which serves one certificate."""
    settings = certificates.settings(**changes)
    outer, inners = outer_context(settings), inner_contexts(settings)

    def named(session: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        session.context = choose(inners, name).context

    outer.sni_callback = named
    return outer


def connected(
    context: ssl.SSLContext | None = None, client: ClientSession | None = None
) -> tuple[TlsStream, ClientSession]:
    """Return both sides of a session whose handshake is complete."""
    stream, client = TlsStream(context or server_context()), client or ClientSession()
    done = client.shake_hands()
    while not (stream.shake_hands(client.output()) and done):
        done = client.shake_hands(stream.output())
    client.read(stream.output())
    return stream, client


def decrypt(stream: TlsStream, ciphertext: bytes) -> bytes:
    """Decrypt a read into a buffer with just the room that it may need."""
    buffer = memoryview(bytearray(len(ciphertext) + RECORD_BYTES))
    return bytes(buffer[: stream.decrypt(memoryview(ciphertext), buffer)])


@given(SIZES, st.integers(0, 2**32), st.integers(1, 5 * SLICE_BYTES))
def test_a_client_s_bytes_come_out_as_they_went_in_however_they_are_cut(sizes: list[int], seed: int, cut: int) -> None:
    stream, client = connected()
    draw = random.Random(seed)
    sent = [draw.randbytes(size) for size in sizes]
    ciphertext = b"".join(client.write(part) for part in sent)
    got = [decrypt(stream, ciphertext[begin : begin + cut]) for begin in range(0, len(ciphertext), cut)]
    assert b"".join(got) == b"".join(sent)
    assert not stream.ended


@given(SIZES, st.integers(0, 2**32))
def test_chunks_reach_the_client_in_order(sizes: list[int], seed: int) -> None:
    stream, client = connected()
    draw = random.Random(seed)
    chunks = [draw.randbytes(size) for size in sizes]
    assert client.read(b"".join(stream.encrypt(chunks))) == b"".join(chunks)
    assert stream.encrypt([memoryview(b"more")]) and not stream.output()


def test_nothing_but_an_incomplete_record_stays_inside() -> None:
    stream, client = connected()
    whole, part = client.write(b"a" * 16384), client.write(b"b" * 16384)
    assert decrypt(stream, whole + part[:-1]) == b"a" * 16384
    assert decrypt(stream, part[-1:]) == b"b" * 16384


def test_what_follows_the_handshake_at_once_is_not_lost() -> None:
    stream, client = TlsStream(server_context()), ClientSession()
    client.shake_hands()
    stream.shake_hands(client.output())
    assert client.shake_hands(stream.output())
    finished = client.output()
    assert stream.shake_hands(finished + client.write(b"AMQP"))
    assert decrypt(stream, b"") == b"AMQP"


def test_either_side_may_close() -> None:
    stream, client = connected()
    assert client.read(b"".join(stream.encrypt([b"last"])) + stream.close()) == b"last"
    stream, client = connected()
    with pytest.raises(ssl.SSLWantReadError):
        client.session.unwrap()
    assert decrypt(stream, client.output()) == b""
    assert stream.ended


@pytest.fixture
def updating() -> Iterator[tuple[TlsStream, OpenSslSession]]:
    """Return both sides of a session whose handshake is complete, and whose client can send KeyUpdates."""
    stream = TlsStream(server_context())
    with OpenSslSession() as client:
        client.shake_hands()
        while not stream.shake_hands(client.output()):
            client.shake_hands(stream.output())
        stream.output()
        yield stream, client


EMPTY = ssl.SSLError, "too many records without contents"


def test_a_client_that_sends_more_records_without_contents_than_any_needs_is_refused(
    updating: tuple[TlsStream, OpenSslSession],
) -> None:
    """So KeyUpdates cost no more than contents of the same size do."""
    stream, client = updating
    assert decrypt(stream, client.updates(EMPTY_MOST // 2)) == b"" and stream.output()
    with pytest.raises(EMPTY[0], match=EMPTY[1]):
        decrypt(stream, client.updates(20 * EMPTY_MOST))
    assert len(stream.output()) < 2 * EMPTY_MOST * UPDATE_BYTES, "the rest is not processed"


def test_contents_among_them_do_not_help(updating: tuple[TlsStream, OpenSslSession]) -> None:
    stream, client = updating
    ciphertext = b"".join(client.updates(1) + client.write(b"x") for _ in range(2 * EMPTY_MOST))
    with pytest.raises(EMPTY[0], match=EMPTY[1]):
        decrypt(stream, ciphertext)


def test_one_now_and_then_does_no_harm(updating: tuple[TlsStream, OpenSslSession]) -> None:
    stream, client = updating
    for second in range(3 * EMPTY_MOST):
        stream.forgive(100 + second * EMPTY_SECONDS)
        assert decrypt(stream, client.updates(1) + client.write(b"still here")) == b"still here"


def test_a_handshake_in_more_records_than_any_needs_is_refused() -> None:
    """Each has one byte of the client's first message."""
    client = ClientSession()
    client.shake_hands()
    message = client.output()[5:]
    pieces = b"".join(b"\x16\x03\x01\x00\x01" + message[at : at + 1] for at in range(EMPTY_MOST + 1))
    with pytest.raises(EMPTY[0], match=EMPTY[1]):
        TlsStream(server_context()).shake_hands(pieces)


def test_a_spoilt_record_is_an_error_with_an_alert_for_the_client() -> None:
    stream, client = connected()
    ciphertext = bytearray(client.write(b"pay me"))
    ciphertext[-1] ^= 1
    with pytest.raises(ssl.SSLError):
        decrypt(stream, bytes(ciphertext))
    alert = stream.output()
    with pytest.raises(ssl.SSLError, match="alert"):
        client.read(alert)


@given(st.binary(max_size=2000))
def test_any_bytes_instead_of_a_handshake_are_an_error_or_too_few(data: bytes) -> None:
    stream = TlsStream(server_context())
    try:
        assert not stream.shake_hands(data)
    except ssl.SSLError:
        assert stream.output() is not None


def test_versions_and_ciphers_are_those_of_the_settings() -> None:
    stream, _ = connected()
    assert stream.version() == "TLSv1.3" and stream.cipher().startswith("TLS_")
    old = certificates.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    stream, _ = connected(client=ClientSession(old))
    assert stream.version() == "TLSv1.2" and "GCM" in stream.cipher()
    with pytest.raises(ssl.SSLError):
        connected(server_context(tls_version="1.3"), ClientSession(old))
    old.set_ciphers("ECDHE-ECDSA-AES256-SHA384")
    with pytest.raises(ssl.SSLError):
        connected(client=ClientSession(old))


def test_a_client_s_certificate_is_taken_from_its_authority_only() -> None:
    wanted = {"client_authorities": certificates.authority().directory / "authority.pem"}
    required = server_context(client_certificates="required", **wanted)
    stream, _ = connected(required, ClientSession(certificates.client_context(certificates.client())))
    assert stream.certificate() is not None
    with pytest.raises(ssl.SSLError):
        connected(required)
    optional = server_context(client_certificates="optional", **wanted)
    stream, _ = connected(optional)
    assert stream.certificate() is None
    unknown = certificates.client_context()
    unknown.load_cert_chain(certificates.foreign_client())
    with pytest.raises(ssl.SSLError):
        connected(optional, ClientSession(unknown))


def test_a_ticket_is_good_again_after_certificates_were_replaced() -> None:
    context, first = server_context(), certificates.client_context()
    first.maximum_version = ssl.TLSVersion.TLSv1_2  # a session of 1.3 cannot be given to a session without a socket
    _, client = connected(context, ClientSession(first))
    settings = certificates.settings()
    renewed = inner_contexts(settings)
    context.sni_callback = lambda session, name, _: setattr(session, "context", choose(renewed, name).context)
    _, again = connected(context, ClientSession(first, resumes=client.session.session))
    assert again.session.session_reused
