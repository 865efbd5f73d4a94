"""TLS listeners of real nodes, with real clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests import certificates
from tests.broker import Broker, ways
from tests.broker.listeners import address_of, listening, with_clients
from tests.broker.process import WITHOUT_HTTP
from tests.certificates import YEAR
from tests.raw import Address, Client
from tests.tls_sockets import TlsSocket
from tests.twins import ROOT
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


def connect(address: Address, context: ssl.SSLContext | None = None, **options: object) -> BlockingConnection:
    """Return pika's connection over TLS, which verifies the broker."""
    context = certificates.client_context() if context is None else context
    return BlockingConnection(
        pika.ConnectionParameters(
            address.host, address.port, ssl_options=pika.SSLOptions(context, "localhost"), **options
        )
    )


def serial(address: Address, name: str = "localhost") -> str:
    """Return the serial number of the certificate that a client gets."""
    context = certificates.client_context()
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname=name) as session,
    ):
        return str((session.getpeercert() or {})["serialNumber"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a node with two acceptors and a listener that takes clients' certificates."""
    directory = tmp_path_factory.mktemp("tls")
    with Broker(directory, *listening(*with_clients("optional")), acceptors=2) as node:
        yield node


def test_contents_of_all_sizes_pass_in_order(broker: Broker) -> None:
    with connect(address_of(broker)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        sent = [os.urandom(size) for size in (0, 1, 100, 16_384, 65_536, 131_072, 3_000_000)] * 3
        for body in sent:
            channel.basic_publish("", queue, body)
        assert [channel.basic_get(queue, auto_ack=True)[2] for _ in sent] == sent


def test_a_certificate_is_enough_to_log_in(broker: Broker) -> None:
    context = certificates.client_context(certificates.client("guest"))
    external = pika.credentials.ExternalCredentials()
    with connect(address_of(broker), context, credentials=external):
        (line,) = json.loads(broker.penstock("connection", "list", "--json").stdout)
        assert (line["user"], line["tls"], line["certificate"]) == ("guest", "TLSv1.3", "CN=guest")
    unknown = certificates.client_context(certificates.client("stranger"))
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="EXTERNAL"):
        connect(address_of(broker), unknown, credentials=external)


def test_a_session_is_resumed_at_every_acceptor(broker: Broker) -> None:
    address, context = address_of(broker), certificates.client_context()
    with socket.create_connection(address) as plain, context.wrap_socket(plain, server_hostname="localhost") as first:
        first.sendall(b"AMQP\0\0\x09\x01")
        assert first.recv(1)  # the ticket comes first
        ticket = first.session
    for _ in range(8):
        with (
            socket.create_connection(address) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=ticket) as again,
        ):
            assert again.session_reused


def test_who_speaks_the_wrong_protocol_is_named_in_the_log(broker: Broker) -> None:
    with socket.create_connection(address_of(broker)) as client:
        client.sendall(b"AMQP\0\0\x09\x01")
        assert client.recv(100) == b""
    wait_for(lambda: "speaks AMQP without TLS at a listener with TLS" in broker.log)
    with (
        socket.create_connection(broker.address) as client,
        pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"),
    ):
        certificates.client_context().wrap_socket(client, server_hostname="localhost")
    wait_for(lambda: "a client speaks TLS at a listener without" in broker.log)


def test_operators_see_what_is_served(broker: Broker) -> None:
    address = address_of(broker)
    (served,) = json.loads(broker.penstock("tls", "list", "--json").stdout)
    assert (served["listener"], served["subject"]) == ("public", "CN=localhost")
    assert f"public on {address.host}:{address.port} with TLS" in broker.penstock("status").stdout
    assert "1 valid for a while" in broker.penstock("health").stdout
    trusted = ["--authorities", str(certificates.authority_file())]
    for options, status in ((trusted, 0), ([], 1)):
        command = [*broker.program, "tls", "show", f"localhost:{address.port}", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, "CN=localhost" in done.stdout) == (status, True)


def test_a_held_producer_lives_on_and_loses_nothing(broker: Broker) -> None:
    """Held by the pause of its socket, which it survives as it does without TLS; its heartbeats go on."""
    arguments = {"x-max-length": 100, "x-overflow": "flow"}
    count, done = 1500, threading.Event()
    with connect(address_of(broker), heartbeat=2) as connection, connect(address_of(broker)) as consumer:
        channel, other = connection.channel(), consumer.channel()
        queue = other.queue_declare("held", durable=True, arguments=arguments).method.queue

        def publish() -> None:
            for number in range(count):
                channel.basic_publish("", queue, b"%06d" % number + bytes(40_000))
            while not done.is_set():
                connection.process_data_events(0.1)

        producer = threading.Thread(target=publish)
        producer.start()
        wait_for(lambda: any(each["held_seconds"] > 5 for each in broker.held()))  # more than two heartbeats
        got = []
        while len(got) < count:
            method, _, body = other.basic_get(queue, auto_ack=True)
            if method:
                got.append(int(body[:6]))
        done.set()
        producer.join()
        assert got == [*range(count)]


def test_certificates_are_replaced_while_clients_are_served(tmp_path: Path) -> None:
    own = tmp_path / "server.pem"
    own.write_bytes(certificates.server().read_bytes())
    with Broker(tmp_path, *listening(certificate=own)) as node, connect(address_of(node)) as connection:
        before, channel = serial(address_of(node)), connection.channel()
        certificates.authority().server(["localhost"], YEAR, "renewed-node.pem").replace(own)
        wait_for(lambda: serial(address_of(node)) != before)
        after = serial(address_of(node))
        own.write_bytes(b"half")
        wait_for(lambda: "the old ones serve on" in node.log)
        assert serial(address_of(node)) == after
        certificates.authority().server(["localhost"], YEAR, "renewed-node.pem").replace(own)
        os.kill(node.pid, signal.SIGHUP)
        wait_for(lambda: serial(address_of(node)) != after)
        renewed = serial(address_of(node))
        node.wait_replaced("acceptor", node.kill("acceptor"))
        wait_for(lambda: serving(node))
        assert serial(address_of(node)) == renewed
        assert not channel_is_open(channel)


def serving(broker: Broker) -> bool:
    """Whether the listener with TLS accepts clients."""
    try:
        serial(address_of(broker))
    except OSError:
        return False
    return True


def channel_is_open(channel: BlockingChannel) -> bool:
    """Whether a channel still answers."""
    try:
        channel.queue_declare("", exclusive=True)
    except pika.exceptions.AMQPError:
        return False
    return True


def test_clients_without_a_certificate_are_refused_where_one_is_required(tmp_path: Path) -> None:
    with Broker(tmp_path, *listening(*with_clients("required"))) as node:
        with pytest.raises((pika.exceptions.AMQPConnectionError, OSError)):
            connect(address_of(node))
        unknown = certificates.client_context()
        unknown.load_cert_chain(certificates.foreign_client())
        with pytest.raises((pika.exceptions.AMQPConnectionError, OSError)):
            connect(address_of(node), unknown)
        wait_for(lambda: node.log.count("TLS handshake failed") >= 2)
        with connect(address_of(node), certificates.client_context(certificates.client())):
            pass


def test_a_plain_listener_may_be_added_and_names_choose_certificates(tmp_path: Path) -> None:
    others = certificates.server("*.example.org")
    settings = [f"listeners.public.certificates={certificates.server()},{others}", "listeners.public.port=0"]
    with Broker(tmp_path, *settings, "listeners.inner.port=0") as node:
        with BlockingConnection(pika.URLParameters(address_of(node, "inner").url)):
            pass
        assert serial(address_of(node)) != serial(address_of(node), "a.example.org")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["certificates={missing}"], "listeners.public: certificate {missing}: No such file or directory"),
        (["certificates={server}", "keys={other}"], "KEY_VALUES_MISMATCH"),
        (["certificates={server}", "ciphers=NONSENSE"], "ciphers 'NONSENSE'"),
    ],
)
def test_a_node_whose_listener_cannot_serve_says_so_in_one_line(
    tmp_path: Path, settings: list[str], reason: str
) -> None:
    files = {
        "missing": tmp_path / "missing.pem", "server": certificates.server(), "other": certificates.server("other"),
    }  # fmt: skip
    given = [part for each in settings for part in ("--set", f"listeners.public.{each.format(**files)}")]
    serve = [sys.executable, "-m", "ops", "serve", "--port", "0", "--data", str(tmp_path / "data"), *WITHOUT_HTTP]
    done = subprocess.run(
        [*serve, *given, "--set", "listeners.public.port=0"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode != 0
    assert reason.format(**files) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_scanner_finds_nothing(broker: Broker) -> None:
    if not shutil.which("sslscan"):
        pytest.skip("sslscan is not installed")
    address = address_of(broker)
    command = ["sslscan", "--no-colour", "--xml=-", f"{address.host}:{address.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    found = ElementTree.fromstring(done.stdout)
    protocols = [each for each in found.iter("protocol") if each.get("enabled") == "1"]
    assert {f"{each.get('type')} {each.get('version')}" for each in protocols} == {"tls 1.2", "tls 1.3"}
    ciphers = [*found.iter("cipher")]
    assert ciphers and all(each.get("strength") in ("strong", "acceptable") for each in ciphers)
    assert all("GCM" in each.get("cipher", "") or "CHACHA20" in each.get("cipher", "") for each in ciphers)
    assert [each.get("supported") for each in found.iter("renegotiation")] == ["0"]
    assert {each.get("vulnerable") for each in found.iter("heartbleed")} == {"0"}


def peers(broker: Broker) -> set[str]:
    """Return the hosts of the connected clients."""
    found = json.loads(broker.penstock("connection", "list", "--json").stdout)
    return {each["peer"].rpartition(":")[0] for each in found}


class FromElsewhere(Client):
    """A client with another address of this machine, over TLS."""

    HOST = "127.0.0.9"

    def _dial(self, address: tuple[str, int], receive_buffer: int) -> socket.socket:
        return TlsSocket(socket.create_connection(address, PATIENCE, (self.HOST, 0)))


def test_behind_haproxy_clients_have_their_own_addresses(tmp_path: Path) -> None:
    """It passes TLS on with a header of version 2, or terminates it and sends one of version 1."""
    with Broker(tmp_path, *ways.listeners()) as node:
        with ways.haproxy(node, tmp_path) as addresses:
            for address in addresses.values():
                with FromElsewhere.connect(address):
                    assert peers(node) == {FromElsewhere.HOST}
                wait_for(lambda: not peers(node))
        with pytest.raises((pika.exceptions.AMQPError, OSError)):
            connect(address_of(node, ways.PASSED_ON))
        wait_for(lambda: "there is no PROXY header" in node.log)
