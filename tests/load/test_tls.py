"""Load over TLS: benchmarks of a real broker, and brokers that are not to be trusted."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from load import pump
from load.session import Session
from load.target import Target
from load.throughput import Shape, burst_of, open_producer
from load.wire import Wire
from tests import certificates
from tests.broker import Broker
from tests.broker.listeners import address_of, listening
from tests.certificates import authority_file
from tests.waiting import PATIENCE

SHAPE = Shape(size=16, burst=1)
ROWS = ("ack", "durable", "fanout", "waiting", "writers", "backlog", "64k", "latency-p99")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A broker with TLS, by an address that is in its certificate."""
    with Broker(tmp_path_factory.mktemp("tls"), *listening()) as node:
        yield Target("127.0.0.1", address_of(node).port, tls=True, authority=authority_file())


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"load.{program}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.broker
def test_rows_over_tls(target: Target, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    where = ("--a", f"amqps://{target}", "--authority", str(authority_file()), "--client", "c")
    done = run("bench", *ROWS, "churn", *where, "--runs", "1", "--seconds", "0.5", "--json", str(report))
    assert done.returncode == 0, done.stderr
    found = {name: row["a"][0] for name, row in json.loads(report.read_text()).items()}
    assert all(found[name]["messages"] > 0 for name in ROWS) and found["churn"]["connections"] > 0
    assert found["latency-p99"]["messages_per_second"] > 0


@pytest.mark.broker
def test_clients_in_python_measure_no_messages_over_tls(target: Target) -> None:
    done = run("bench", "tiny", "--a", f"amqps://{target}")
    assert done.returncode == 2 and done.stderr == "bench: this row over TLS needs clients in C: --client c\n"


@pytest.mark.broker
def test_a_session_of_pika_goes_over_tls(target: Target, queue: str) -> None:
    session = Session(target, "test")
    session.channel.queue_declare(queue)
    assert session.depth(queue) == 0
    session.channel.queue_delete(queue)
    session.close()


@pytest.mark.broker
def test_a_client_in_c_that_is_refused_by_amqp_says_so(target: Target) -> None:
    refused = Target(target.host, target.port, password="wrong", tls=True, authority=target.authority)
    with pytest.raises(ConnectionError, match=r"hung up|wanted method"):
        start_producer(refused)


def start_producer(target: Target) -> None:
    with ExitStack() as stack:
        opener = partial(open_producer, target, SHAPE)
        pump.start(stack, target, ["produce", "0", "-1"], [opener], pump.encode_burst(burst_of(SHAPE, 0), 1))


@contextmanager
def impostor(certificate: Path, version: ssl.TLSVersion) -> Iterator[int]:
    """Yield the port of a server that shakes hands, if the client does, and hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    context.load_cert_chain(certificate)

    def serve() -> None:
        with suppress(OSError):  # the client's refusal, or the end of the test
            while True:
                connection, _ = server.accept()
                with suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("elsewhere.example", ssl.TLSVersion.TLSv1_3, "certificate verify failed"),
        ("127.0.0.1", ssl.TLSVersion.TLSv1_2, "protocol version"),
    ],
)
def test_a_broker_with_another_name_or_an_older_version_is_refused(
    name: str, version: ssl.TLSVersion, message: str
) -> None:
    with impostor(certificates.server(name), version) as port:
        target = Target("127.0.0.1", port, tls=True, authority=authority_file())
        with pytest.raises(ConnectionError, match=message):
            start_producer(target)
        with pytest.raises(ssl.SSLError):
            Wire(target)


def test_a_broker_of_another_authority_is_refused_where_it_is_verified() -> None:
    strange = authority_file().parent / "foreign" / authority_file().name
    assert certificates.foreign_client()
    with impostor(certificates.server(), ssl.TLSVersion.TLSv1_3) as port:
        for trusted, message in (
            (strange, "certificate verify failed"),
            (None, "a connection (broke|ended)|closed a connection"),
        ):
            with pytest.raises(ConnectionError, match=message):
                start_producer(Target("127.0.0.1", port, tls=True, authority=trusted))
