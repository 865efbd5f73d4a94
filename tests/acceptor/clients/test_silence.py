"""Clients that have agreed to heartbeats: they are hung up on after two silent intervals, not a second later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from acceptor.clients.pauses import OUTPUT
from acceptor.clients.silence import INTERVALS, MOMENT_SECONDS
from tests.frames import HEARTBEAT, frame
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

HEARTBEAT_SECONDS = 10
PATIENCE_SECONDS = INTERVALS * HEARTBEAT_SECONDS


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect(heartbeat=HEARTBEAT_SECONDS)


def pass_time(node: Node, seconds: float) -> None:
    """Let time pass before the acceptor's rechecks."""
    node.now += seconds
    node.recheck(0)


def test_a_client_that_sends_nothing_for_two_intervals_is_hung_up_on(node: Node, client: Client) -> None:
    pass_time(node, PATIENCE_SECONDS - 0.01)
    assert not client.socket.closed
    with capture_logs() as logs:
        pass_time(node, 0.01)
        pass_time(node, MOMENT_SECONDS)
    assert client.socket.closed
    assert [(line["event"], line["seconds"]) for line in logs] == [("missed heartbeats", PATIENCE_SECONDS + 0.1)]


def test_any_byte_will_do(node: Node, client: Client) -> None:
    for _ in range(5):
        pass_time(node, PATIENCE_SECONDS - 0.01)
        client.write(frame(HEARTBEAT, 0, b""))
        client.read()
    assert not client.socket.closed


def test_what_came_while_the_acceptor_was_busy_is_read_first(node: Node, client: Client) -> None:
    pass_time(node, 3 * PATIENCE_SECONDS)
    client.write(frame(HEARTBEAT, 0, b""))
    client.read()
    pass_time(node, MOMENT_SECONDS)
    assert not client.socket.closed
    pass_time(node, PATIENCE_SECONDS)
    pass_time(node, MOMENT_SECONDS)
    assert client.socket.closed


def test_a_client_that_is_not_read_is_not_silent(node: Node, client: Client) -> None:
    client.connection.pause_reading(OUTPUT)
    for _ in range(4):
        pass_time(node, PATIENCE_SECONDS)
    client.connection.resume_reading(OUTPUT)
    pass_time(node, PATIENCE_SECONDS - 0.01)
    pass_time(node, 0.005)
    assert not client.socket.closed
    pass_time(node, 0.005)
    pass_time(node, MOMENT_SECONDS)
    assert client.socket.closed


def test_without_heartbeats_silence_is_allowed(node: Node) -> None:
    client = node.connect()
    for _ in range(4):
        pass_time(node, 1000)
    assert not client.socket.closed


def test_who_is_gone_is_not_waited_for(node: Node, client: Client) -> None:
    silence = node.core(0).services.silence
    assert client.connection in silence.due
    client.lose()
    node.settle()
    assert client.connection not in silence.due
