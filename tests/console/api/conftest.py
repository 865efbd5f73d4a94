"""One node with its management API for the tests of this folder, each of which uses a vhost of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.broker import Broker
from tests.console.api import calls
from tests.management import Api

NAMES = count(1)


class Served(NamedTuple):
    """A node and its API."""

    broker: Broker
    api: Api


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    with Broker(directory, "http.port=0", "http.metrics=false", acceptors=2, shards=2) as broker:
        yield Served(broker, Api.of(directory))


@pytest.fixture
def api(served: Served) -> Api:
    return served.api


@pytest.fixture
def vhost(api: Api) -> Iterator[str]:
    """A vhost of the test's own."""
    name = f"vhost{next(NAMES)}"
    api.put(f"vhosts/{name}")
    yield name
    assert api.status("DELETE", f"vhosts/{name}") == 204


Connect = Callable[..., BlockingConnection]


@pytest.fixture
def connect(served: Served, vhost: str) -> Iterator[Connect]:
    """Opens connections to the test's vhost."""
    with ExitStack() as stack:

        def opened(name: str = "a test", user: str = "guest", password: str = "guest") -> BlockingConnection:
            host, port = served.broker.address
            terms = pika.ConnectionParameters(
                host, port, vhost, pika.PlainCredentials(user, password), client_properties={"connection_name": name}
            )
            connection = pika.BlockingConnection(terms)
            stack.callback(lambda: connection.is_open and connection.close())
            return connection

        yield opened


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[calls.Served]:
    """A node for all tests of a module."""
    with calls.served(tmp_path_factory.mktemp("node")) as node:
        yield node
