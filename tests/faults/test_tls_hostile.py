"""Hostile clients of a listener with TLS: no process ends, nothing that grew stays, and neighbours are served."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from load.handshakes import Storm
from load.target import Target
from penstock.tls.certificates import now, read_certificate
from tests import certificates
from tests.broker import Broker
from tests.broker.listeners import address_of, listening, with_clients
from tests.broker.test_tls import connect
from tests.certificates import ClientSession
from tests.open_files import many_files
from tests.openssl import OpenSslSession
from tests.raw import Address
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

MIB = 1 << 20
HALF_OPEN = 5000
STORM_RATE = 5000
ROUNDS = 300
FLOODS = 20
UPDATES = 5000
GROWTH_MOST = 24 * MIB
"""What buffers and the allocator keep of a storm."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Return a node whose clients have little time for their handshakes; the same processes serve at the end."""
    with Broker(tmp_path, *listening(*with_clients("optional")), "amqp.handshake_timeout=3") as node:
        before = node.children("acceptor")
        yield node
        assert node.children("acceptor") == before


def neighbour_is_served(broker: Broker) -> None:
    """A client that is connected publishes and gets. AssertionError if it cannot."""
    with connect(address_of(broker)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"still here")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"still here"


def hello() -> bytes:
    """Return a client's first message."""
    client = ClientSession()
    client.shake_hands()
    return client.output()


@pytest.mark.parametrize("first", [b"", hello()[:100], hello()], ids=["silent", "half a message", "a whole message"])
def test_half_open_handshakes_end_in_time_and_leave_nothing(broker: Broker, first: bytes) -> None:
    neighbour_is_served(broker)
    before = broker.pss()
    with many_files(), ExitStack() as opened, connect(address_of(broker)) as connection:
        channel = connection.channel()
        for _ in range(HALF_OPEN):
            client = opened.enter_context(socket.create_connection(address_of(broker), PATIENCE))
            with suppress(OSError):  # refused already
                client.sendall(first)
        queue = channel.queue_declare("", exclusive=True).method.queue
        assert queue
        opened.pop_all().close()
    neighbour_is_served(broker)
    wait_for(lambda: broker.pss() < before + GROWTH_MOST, what="memory given back")


@pytest.mark.parametrize("addresses", [1, 100])
def test_in_a_storm_of_handshakes_clients_of_other_addresses_are_served(broker: Broker, addresses: int) -> None:
    """From one address it is refused in part; from many, each has its turn, and so has the one more."""
    host, port = address_of(broker)
    context = certificates.client_context()
    storm = Storm(Target(host, port, tls=True), STORM_RATE, addresses=addresses)
    with connect(address_of(broker)) as connection, storm:
        channel = connection.channel()

        def is_felt_beside_a_busy_client() -> bool:
            for _ in range(100):
                channel.basic_publish("", "nowhere", b"x")
            return "TLS handshakes refused" in broker.log if addresses == 1 else storm.given_up > STORM_RATE // 10

        wait_for(is_felt_beside_a_busy_client, interval=0)
        with (
            socket.create_connection((host, port), PATIENCE, ("127.0.0.200", 0)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as other,
        ):
            assert other.version() == "TLSv1.3"
        assert channel.queue_declare("", exclusive=True).method.queue
    neighbour_is_served(broker)


def cut(draw: random.Random, step: int) -> Callable[[Address], None]:
    """Return a client that sends random bytes after a number of steps of the handshake, or as many records."""

    def play(address: Address) -> None:
        client = ClientSession()
        with socket.create_connection(address, PATIENCE) as plain, suppress(OSError, ssl.SSLError):
            for _ in range(step):
                complete = client.shake_hands()
                plain.sendall(client.output())
                if complete:
                    break
                client.incoming.write(plain.recv(1 << 16))
            if draw.random() < 0.5 and client.shake_hands():
                plain.sendall(client.output() + client.write(draw.randbytes(draw.randrange(300))))
            plain.sendall(draw.randbytes(draw.randrange(1, 3000)))
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(1 << 16):
                pass

    return play


def test_random_bytes_after_each_step_end_their_own_connection_only(broker: Broker) -> None:
    draw = random.Random(23)
    with connect(address_of(broker)) as connection:
        channel = connection.channel()
        for number in range(ROUNDS):
            cut(draw, number % 4)(address_of(broker))
            connection.process_data_events(0)
        assert channel.queue_declare("", exclusive=True).method.queue
    neighbour_is_served(broker)


def flood(address: Address, reads: bool) -> None:
    """Send KeyUpdates, each of which asks for one in return, until the server hangs up, and read them or not."""
    with OpenSslSession() as client, socket.create_connection(address, PATIENCE) as plain, suppress(OSError):
        while not client.shake_hands():
            plain.sendall(client.output())
            client.shake_hands(plain.recv(1 << 16))
        plain.sendall(client.output())
        while True:
            plain.sendall(client.updates(UPDATES))
            if reads:
                plain.recv(1 << 16)


@pytest.mark.parametrize("reads", [False, True], ids=["answers are not read", "answers are read"])
def test_floods_of_key_updates_end_their_own_connections_only(broker: Broker, reads: bool) -> None:
    neighbour_is_served(broker)
    before = broker.pss()
    with connect(address_of(broker)) as connection:
        channel = connection.channel()
        for count in range(1, FLOODS + 1):
            flood(address_of(broker), reads)
            wait_for(lambda count=count: broker.log.count("too many records without contents") == count)
            assert channel.queue_declare("", exclusive=True).method.queue
    neighbour_is_served(broker)
    wait_for(lambda: broker.pss() < before + GROWTH_MOST, what="memory given back")


def is_refused(address: Address, own: Path) -> bool:
    """Whether a client with a certificate is hung up on instead of greeted."""
    context = certificates.client_context(own)
    try:
        with (
            socket.create_connection(address, PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            tls.sendall(b"AMQP\0\0\x09\x01")
            return not tls.recv(1)
    except OSError:
        return True


def test_certificates_that_are_wrong_or_have_expired_are_refused(broker: Broker) -> None:
    expired = certificates.authority().client("guest", timedelta(days=-1), "expired-client.pem")
    assert read_certificate(expired).seconds_left(now()) < 0
    wrong = [expired, certificates.foreign_client(), certificates.server()]  # a server's is for no client
    for count, own in enumerate(wrong, 1):
        assert is_refused(address_of(broker), own)
        wait_for(lambda count=count: broker.log.count("TLS handshake failed") == count)
    assert not is_refused(address_of(broker), certificates.client())
    neighbour_is_served(broker)
