"""One node for the replays of this folder, each of which uses a vhost of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest

from tests.console.http.node import HttpBroker


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("replays"), "http.metrics=false", acceptors=2, shards=2) as node:
        yield node


@contextmanager
def connected(node: HttpBroker, vhost: str) -> Iterator[pika.BlockingConnection]:
    """Open a connection of pika to a vhost."""
    host, port = node.address
    with pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost)) as connection:
        yield connection
