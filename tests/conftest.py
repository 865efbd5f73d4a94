"""Fixtures for tests with a broker: ordinary tests share one per worker, destructive ones start their own.

`--amqp-url` runs the ordinary tests against another AMQP 0-9-1 broker, for comparison.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import hypothesis
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptor.amqp.channel import Channel as AcceptorChannel
from acceptor.amqp.connection import Connection
from acceptor.core import AcceptorCore
from ops.compiled import PACKAGES
from tests.broker import Broker, ways
from tests.raw import Address, Channel, Client, Closed
from tests.twins import ROOT

pytest_plugins = ["tests.unsteady"]

Names = Callable[[str], str]

# Spark has little to do in a test. These are `pipeline.session.LITTLE_JAVA`, not imported because Spark takes long to.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")

# The time of an example depends on how busy the machine is, so there is no deadline.
# A test run shows the effect of a change, so it has the same cases every time. `make check` runs few of them;
# `make search` draws new ones each time.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")


CONTAINED = {
    (kind, name): getattr(kind, name)
    for kind, name in ((Connection, "broken"), (AcceptorChannel, "broken"), (AcceptorCore, "break_off"))
}
"""The methods that, at a bug, end a connection or channel instead of the process."""


def raise_last(*arguments: Any) -> None:
    """Raise the last argument."""
    raise arguments[-1]


def pytest_xdist_auto_num_workers() -> int | None:
    """Tests with processes wait more than they compute: half as many workers again as there are cores. None, the choice
    of pytest-xdist, if its environment variable says how many.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --amqp-url."""
    parser.addoption(
        "--amqp-url", help="test this broker (amqp://HOST:PORT) where a test needs no more than AMQP of it"
    )


def pytest_sessionstart() -> None:
    """Exit if a source is newer than its compiled module: the old code would be tested."""
    built = (path for package in PACKAGES for path in (ROOT / package).rglob("*.so"))
    sources = ((path, source) for path in built for source in path.parent.glob(f"{path.name.split('.')[0]}.p*"))
    stale = [str(source) for path, source in sources if is_newer(source, path)]
    if stale:
        pytest.exit(f"changed since they were compiled, run `make setup`: {', '.join(stale)}", returncode=2)


def is_newer(one: Path, other: Path) -> bool:
    """Whether `one` was modified after `other`."""
    return one.stat().st_mtime_ns > other.stat().st_mtime_ns


@pytest.fixture(scope="session", autouse=True)
def bugs_are_raised() -> Iterator[None]:
    """Let a bug fail the test instead of ending a connection: parts of the broker are tested in this process."""

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in CONTAINED:
            patch.setattr(kind, name, raise_last)
        yield


@pytest.fixture
def bugs_are_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a bug end a connection or channel, as it does outside of tests."""
    for (kind, name), method in CONTAINED.items():
        monkeypatch.setattr(kind, name, method)


@pytest.fixture(scope="session")
def penstock_only(request: pytest.FixtureRequest) -> None:
    """Skip a test that needs more than AMQP if another broker is tested."""
    if request.config.getoption("--amqp-url"):
        pytest.skip("asks for more than AMQP")


@pytest.fixture(scope="session")
def broker(penstock_only: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The worker's penstock, with two acceptors and two shards, so that agreement across processes is tested."""
    with Broker(tmp_path_factory.mktemp("broker"), *ways.listeners(), acceptors=2, shards=2) as broker:
        yield broker


@pytest.fixture(scope="session")
def proxied(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Address]]:
    """The addresses of HAProxy in front of the worker's penstock."""
    with ways.haproxy(broker, tmp_path_factory.mktemp("haproxy")) as addresses:
        yield addresses


@pytest.fixture(scope="session")
def address(request: pytest.FixtureRequest) -> Address:
    """The address of the AMQP server: penstock, in the way that `each_way` chooses, or the broker named with
    --amqp-url.
    """
    url = request.config.getoption("--amqp-url")
    if url:
        parts = urlsplit(url)
        return Address(parts.hostname or "127.0.0.1", parts.port or 5672)
    way = getattr(request, "param", ways.PLAIN)
    if way in ways.PROXIED:
        proxied: dict[str, Address] = request.getfixturevalue("proxied")
        return proxied[way]
    return ways.direct(request.getfixturevalue("broker"), way)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Disable the cycle collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def url(address: Address) -> str:
    """The AMQP URL of the broker."""
    return address.url


@pytest.fixture
def names(address: Address, request: pytest.FixtureRequest) -> Iterator[Names]:
    """A function that makes unique names; queues and exchanges with these names are deleted at the end."""
    made: list[str] = []

    def name(stem: str) -> str:
        test = re.sub(r"\W+", "-", request.node.name)[:60]
        made.append(f"{stem}-{test}-{uuid4().hex[:8]}")
        return made[-1]

    yield name
    if made:
        try:
            if "broker" in request.fixturenames:
                request.getfixturevalue("broker").check_overshoot()
        finally:
            _delete(address, made)


def _delete(address: Address, names: list[str]) -> None:
    with Client.connect(address) as client:
        for each in names:
            channel = client.channel()
            with suppress(Closed):  # an exclusive queue whose connection is not closed yet
                channel.call("queue.delete", queue=each)
                channel.call("exchange.delete", exchange=each)


@pytest.fixture
def queue(names: Names) -> str:
    """A unique queue name; the queue is deleted at the end."""
    return names("q")


@pytest.fixture
def client(address: Address) -> Iterator[Client]:
    """A connection that speaks frames."""
    with Client.connect(address) as client:
        yield client


@pytest.fixture
def channel(client: Client) -> Channel:
    """The first channel of `client`."""
    return client.channel()


@pytest.fixture
def connect(address: Address) -> Iterator[Callable[[], Client]]:
    """A function that opens further connections that speak frames; they are closed at the end."""
    opened: list[Client] = []

    def open_one(**options: object) -> Client:
        opened.append(Client.connect(address, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.__exit__()


@pytest.fixture
def pika_channel(url: str) -> Iterator[BlockingChannel]:
    """A channel of pika's blocking connection."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    yield connection.channel()
    if connection.is_open:
        connection.close()
