"""The real acceptor process, as clients, the supervisor and the router see it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.bus import unpack
from penstock.control import control
from router.core import SNAPSHOT
from tests.alone import Alone
from tests.raw import Client, Closed
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """Yield the node's socket, which its acceptors inherit."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield port


@pytest.fixture
def alone(port: socket.socket, tmp_path: Path) -> Iterator[Alone]:
    (tmp_path / "data").mkdir()
    with Alone("acceptor", tmp_path / "data", [port.fileno()]) as alone:
        yield alone


def test_it_listens_once_it_has_the_topology(alone: Alone, port: socket.socket) -> None:
    assert alone.requests.poll(PATIENCE * 1000)
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(port.getsockname())
    assert not alone.reports.poll(0)
    alone.wait_ready()
    with Client.connect(port.getsockname()) as client:
        client.channel()


def test_a_declaration_is_made_by_the_router(alone: Alone, port: socket.socket) -> None:
    alone.wait_ready()
    with Client.connect(port.getsockname()) as client:
        channel = client.channel()
        channel.send("exchange.declare", exchange="x", type="fanout")
        name, arguments = alone.answer()
        assert (name, arguments["name"], arguments["user"]) == ("exchange_declare", "x", "guest")
        channel.take("exchange.declare-ok")
        channel.publish(b"m", exchange="x", mandatory=True)
        assert channel.take("basic.return").code == 312, "its replica has the exchange"


def test_a_new_router_is_asked_again(alone: Alone, port: socket.socket) -> None:
    alone.wait_ready()
    with Client.connect(port.getsockname()) as client:
        channel = client.channel()
        channel.send("exchange.declare", exchange="x", type="fanout")
        _, frame = alone.requests.recv_multipart()
        alone.announce("started", "router", 0, 2)
        _, again = alone.requests.recv_multipart()
        assert again == frame
        _, asked = alone.requests.recv_multipart()
        assert unpack(asked)[1:] == [SNAPSHOT, {"have": 1}]


def test_at_its_end_it_closes_connections_and_open_handshakes(alone: Alone, port: socket.socket) -> None:
    alone.wait_ready()
    with Client.connect(port.getsockname()) as client, socket.create_connection(port.getsockname()) as silent:
        question = alone.node.control_of("acceptor", 0, 1)
        assert control.call(question, "held", {}) == []
        assert alone.stop() == 0
        ended = client.ended()
        assert isinstance(ended, Closed) and ended.code == 320
        assert silent.recv(1) == b""
    assert "Traceback" not in alone.log
