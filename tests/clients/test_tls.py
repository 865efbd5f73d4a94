"""Clients of all kinds over TLS 1.3 that verify the broker, with a password, a token, and a certificate."""

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
from typing import Any, NamedTuple

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
from tests.acceptor.logins.issuer import AUDIENCE, Issuer
from tests.broker import Broker
from tests.broker.listeners import address_of, listening, with_clients
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
ISSUER = Issuer()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Return a listener with TLS 1.3 that takes clients' certificates, and tokens."""
    directory = tmp_path_factory.mktemp("tls")
    keys = directory / "keys.json"
    keys.write_bytes(ISSUER.jwks())
    tokens = [f"auth.oauth2.resource_server_id={AUDIENCE}", f"auth.oauth2.keys={keys}"]
    settings = listening("tls_version=1.3", *with_clients("optional"))
    with Broker(directory, *settings, "auth.backends=internal,oauth2", *tokens) as broker:
        yield address_of(broker)


class Login(NamedTuple):
    """How a client logs in: by name and password, or by its certificate."""

    user: str = "guest"
    password: str = "guest"
    own: Path | None = None


@pytest.fixture(params=["password", "certificate", "token"])
def login(request: pytest.FixtureRequest) -> Login:
    """Return how a client logs in."""
    if request.param == "token":
        return Login("anyone", ISSUER.token())
    return Login(own=certificates.client("guest") if request.param == "certificate" else None)


def authority() -> str:
    """Return the file of the authority that a client trusts."""
    return str(certificates.authority_file())


def url_of(address: Address, login: Login = Login()) -> str:  # noqa: B008  it is immutable
    """Return the URL of a listener."""
    return f"amqps://{login.user}:{login.password}@localhost:{address.port}/"


def run(command: list[str], **environment: str) -> None:
    """Run a program. AssertionError, with its words, if it fails."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout


def test_pika(address: Address, login: Login) -> None:
    options = pika.SSLOptions(certificates.client_context(login.own), "localhost")
    plain, external = pika.PlainCredentials(login.user, login.password), pika.credentials.ExternalCredentials()
    credentials = external if login.own else plain
    parameters = pika.ConnectionParameters("localhost", address.port, credentials=credentials, ssl_options=options)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, BODY)
        assert channel.basic_get(queue, auto_ack=True)[2] == BODY


def test_aio_pika(address: Address, login: Login) -> None:
    async def round_trip() -> None:
        url = url_of(address, login) + ("?auth=external" if login.own else "")
        connection = await aio_pika.connect_robust(url, ssl_context=certificates.client_context(login.own))
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
            assert (await queue.get(no_ack=True)).body == BODY

    asyncio.run(round_trip())


def test_kombu(address: Address, login: Login) -> None:
    """Celery's transport; its settings are broker_use_ssl and broker_login_method."""
    secured: dict[str, Any] = {"ca_certs": authority(), "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    if login.own:
        secured |= {"certfile": str(login.own), "keyfile": str(login.own)}
    method = "EXTERNAL" if login.own else "PLAIN"
    url = f"pyamqp://{login.user}:{login.password}@localhost:{address.port}//"
    with kombu.Connection(url, ssl=secured, login_method=method) as connection:
        queue = connection.SimpleBuffer("over-tls", no_ack=True)
        queue.put({"x": "y" * 300_000})
        assert queue.get(timeout=PATIENCE).payload == {"x": "y" * 300_000}
        queue.close()


@pytest.mark.slow
def test_celery_worker(address: Address, login: Login, tmp_path: Path) -> None:
    """With a certificate its password would be wrong."""
    url = f"amqp://{login.user}:{'none' if login.own else login.password}@localhost:{address.port}//"
    with running(Worker(url, tmp_path, results="rpc", authority=authority(), own=login.own)) as worker:
        assert worker.module.total.delay([*range(100_000)]).get(PATIENCE) == sum(range(100_000))


def test_faststream(address: Address, login: Login) -> None:
    context = certificates.client_context(login.own)
    security = RabbitExternalAuth(context) if login.own else SASLPlaintext(login.user, login.password, context)

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


def test_amqplib(address: Address, login: Login) -> None:
    own = [str(login.own)] if login.own else []
    run(["node", str(amqplib.PROGRAMS / "tls.js"), url_of(address, login), authority(), *own], **amqplib.environment())


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
def test_java(address: Address, login: Login, tmp_path: Path) -> None:
    if not shutil.which("javac") or not all(jar.exists() for jar in JARS):
        pytest.skip("a JDK or the Java client is not installed")
    trusted, mine = tmp_path / "trusted.p12", tmp_path / "mine.p12"
    lock = BestAvailableEncryption(SECRET)
    known = pkcs12.PKCS12Certificate(certificates.authority().certificate, b"authority")
    trusted.write_bytes(pkcs12.serialize_java_truststore([known], lock))
    command = ["java", "-cp", ":".join(map(str, [tmp_path, *JARS])), "RoundTrip", "localhost", str(address.port)]
    if login.own:
        pem = login.own.read_bytes()
        key: Any = load_pem_private_key(pem, None)
        mine.write_bytes(
            pkcs12.serialize_key_and_certificates(b"guest", key, x509.load_pem_x509_certificate(pem), None, lock)
        )
    run(["javac", "-cp", str(JARS[0]), "-d", str(tmp_path), str(PROGRAMS / "RoundTrip.java")])
    run([*command, str(trusted), login.user, login.password, *([str(mine)] if login.own else [])])


@pytest.mark.slow
def test_go(address: Address, login: Login, tmp_path: Path) -> None:
    if not shutil.which("go") or not (GO_SOURCES / "src/github.com/rabbitmq/amqp091-go").exists():
        pytest.skip("Go or its client is not installed")
    built = tmp_path / "roundtrip"
    environment = {"GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""}
    run(["go", "build", "-o", str(built), str(PROGRAMS / "roundtrip.go")], **environment)
    run([str(built), url_of(address, login), authority(), *([str(login.own)] if login.own else [])])
