"""Clients of all kinds over TLS 1.3 that verify the broker, with a password and with a certificate of their own."""

# kombu and celery have no types.
# mypy: disable-error-code="import-untyped, no-untyped-call"

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import kombu
import pika
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from faststream.rabbit import RabbitBroker
from faststream.rabbit.security import RabbitExternalAuth
from faststream.security import SASLPlaintext

import penstock.client
from tests import certificates
from tests.broker import Broker
from tests.broker.test_tls import AUTHORITY, address_of, listening, with_clients
from tests.clients import amqplib
from tests.clients.celery_worker import Worker, running
from tests.raw import Address
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker

PROGRAMS = Path(__file__).parent / "tls"
JARS = [Path("/usr/share/java") / f"{name}.jar" for name in ("amqp-client", "slf4j-api", "slf4j-nop")]
GO_SOURCES = Path("/usr/share/gocode")
SECRET = b"secret"
BODY = bytes(300_000)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Return a listener with TLS 1.3 that takes clients' certificates."""
    settings = listening("tls_version=1.3", *with_clients("optional"))
    with Broker(tmp_path_factory.mktemp("tls"), *settings) as broker:
        yield address_of(broker)


@pytest.fixture(params=["password", "certificate"])
def own(request: pytest.FixtureRequest) -> Path | None:
    """Return the client's certificate; None if it logs in with a password."""
    return certificates.client("guest") if request.param == "certificate" else None


def authority() -> str:
    """Return the file of the authority that a client trusts."""
    return str(certificates.authority().directory / AUTHORITY)


def url_of(address: Address) -> str:
    """Return the URL of a listener for user guest."""
    return f"amqps://guest:guest@localhost:{address.port}/"


def run(command: list[str], **environment: str) -> None:
    """Run a program. AssertionError, with its words, if it fails."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout


def test_pika(address: Address, own: Path | None) -> None:
    options = pika.SSLOptions(certificates.client_context(own), "localhost")
    credentials = pika.credentials.ExternalCredentials() if own else pika.PlainCredentials("guest", "guest")
    parameters = pika.ConnectionParameters("localhost", address.port, credentials=credentials, ssl_options=options)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, BODY)
        assert channel.basic_get(queue, auto_ack=True)[2] == BODY


def test_aio_pika(address: Address, own: Path | None) -> None:
    async def round_trip() -> None:
        url = url_of(address) + ("?auth=external" if own else "")
        connection = await aio_pika.connect_robust(url, ssl_context=certificates.client_context(own))
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
            assert (await queue.get(no_ack=True)).body == BODY

    asyncio.run(round_trip())


def test_kombu(address: Address, own: Path | None) -> None:
    """Celery's transport; its settings are broker_use_ssl and broker_login_method."""
    secured: dict[str, Any] = {"ca_certs": authority(), "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    if own:
        secured |= {"certfile": str(own), "keyfile": str(own)}
    method = "EXTERNAL" if own else "PLAIN"
    url = f"pyamqp://guest:guest@localhost:{address.port}//"
    with kombu.Connection(url, ssl=secured, login_method=method) as connection:
        queue = connection.SimpleBuffer("over-tls", no_ack=True)
        queue.put({"x": "y" * 300_000})
        assert queue.get(timeout=PATIENCE).payload == {"x": "y" * 300_000}
        queue.close()


@pytest.mark.slow
def test_celery_worker(address: Address, own: Path | None, tmp_path: Path) -> None:
    """With a certificate its password would be wrong."""
    url = f"amqp://guest:{'none' if own else 'guest'}@localhost:{address.port}//"
    with running(Worker(url, tmp_path, results="rpc", authority=authority(), own=own)) as worker:
        assert worker.module.total.delay([*range(100_000)]).get(PATIENCE) == sum(range(100_000))


def test_faststream(address: Address, own: Path | None) -> None:
    context = certificates.client_context(own)
    security = RabbitExternalAuth(context) if own else SASLPlaintext("guest", "guest", context)

    async def round_trip() -> None:
        broker = RabbitBroker(f"amqps://localhost:{address.port}/", security=security)
        came: asyncio.Queue[bytes] = asyncio.Queue()

        @broker.subscriber("faststream-over-tls")
        async def handle(body: bytes) -> None:
            await came.put(body)

        async with broker:
            await broker.start()
            await broker.publish(BODY, "faststream-over-tls")
            assert await asyncio.wait_for(came.get(), PATIENCE) == BODY

    asyncio.run(round_trip())


def test_producer_client(address: Address) -> None:
    """penstock's own, whose URL is pika's."""
    options = f"?ssl_options={{'cafile':'{authority()}'}}"
    with penstock.client.Producer(url_of(address) + options) as producer:
        receipt = producer.send(b"over TLS", exchange="amq.fanout", mandatory=False)
        assert receipt is not None and receipt.result(PATIENCE)


def test_amqplib(address: Address, own: Path | None) -> None:
    command = ["node", str(amqplib.PROGRAMS / "tls.js"), url_of(address), authority(), *([str(own)] if own else [])]
    run(command, **amqplib.environment())


def test_amqp_tools(address: Address) -> None:
    if not shutil.which("amqp-declare-queue"):
        pytest.skip("amqp-tools are not installed")
    command = [
        "amqp-declare-queue",
        "--url",
        f"{url_of(address)}%2F",
        "--ssl",
        "--cacert",
        authority(),
        "-q",
        "tools-over-tls",
    ]
    run(command)


@pytest.mark.slow
def test_java(address: Address, own: Path | None, tmp_path: Path) -> None:
    if not shutil.which("javac") or not all(jar.exists() for jar in JARS):
        pytest.skip("a JDK or the Java client is not installed")
    trusted, mine = tmp_path / "trusted.p12", tmp_path / "mine.p12"
    lock = BestAvailableEncryption(SECRET)
    known = pkcs12.PKCS12Certificate(certificates.authority().certificate, b"authority")
    trusted.write_bytes(pkcs12.serialize_java_truststore([known], lock))
    command = ["java", "-cp", ":".join(map(str, [tmp_path, *JARS])), "RoundTrip", "localhost", str(address.port)]
    if own:
        pem = own.read_bytes()
        key: Any = load_pem_private_key(pem, None)
        mine.write_bytes(
            pkcs12.serialize_key_and_certificates(b"guest", key, x509.load_pem_x509_certificate(pem), None, lock)
        )
    run(["javac", "-cp", str(JARS[0]), "-d", str(tmp_path), str(PROGRAMS / "RoundTrip.java")])
    run([*command, str(trusted), *([str(mine)] if own else [])])


@pytest.mark.slow
def test_go(address: Address, own: Path | None, tmp_path: Path) -> None:
    if not shutil.which("go") or not (GO_SOURCES / "src/github.com/rabbitmq/amqp091-go").exists():
        pytest.skip("Go or its client is not installed")
    built = tmp_path / "roundtrip"
    environment = {"GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""}
    run(["go", "build", "-o", str(built), str(PROGRAMS / "roundtrip.go")], **environment)
    run([str(built), url_of(address), authority(), *([str(own)] if own else [])])
