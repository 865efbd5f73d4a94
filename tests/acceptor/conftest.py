"""A client of a joined node, and its channel; the node is the test module's own."""

from __future__ import annotations

import pytest

from acceptor.amqp.channel import Channel
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def client(node: Node) -> Client:
    """A client with one open channel."""
    return open_channel(node)


@pytest.fixture
def channel(client: Client) -> Channel:
    """The client's channel, as its acceptor has it."""
    found = client.connection.channels[1]
    assert isinstance(found, Channel)
    return found
