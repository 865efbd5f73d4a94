"""The real acceptor process, as clients, the supervisor and the router see it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.bus import unpack
from penstock.control import control
from penstock.memory.gauges import READY
from router.core import SNAPSHOT
from tests.alone import Alone
from tests.raw import Client, Closed
from tests.waiting import PATIENCE, wait_for

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


def listens(port: socket.socket) -> bool:
    with socket.socket() as client:
        return client.connect_ex(port.getsockname()) == 0


def has_place(alone: Alone, incarnation: int) -> None:
    """The supervisor writes which incarnation has the child's place."""
    alone.gauges.process_write(
        "acceptor", 0, pid=1, incarnation=incarnation, state=READY, started_us=0, restarts=0
    )  # fmt: skip


def test_a_successor_listens_once_its_predecessor_is_asked_to_end(alone: Alone, port: socket.socket) -> None:
    has_place(alone, 2)
    alone.wait_ready()
    assert not listens(port)
    alone.announce("replaces", "acceptor", 0, 3)
    alone.announce("replaces", "acceptor", 0, 1)
    wait_for(lambda: listens(port), what="a port that is open")
    with Client.connect(port.getsockname()) as client:
        client.channel()


def test_a_successor_listens_once_it_has_the_place(alone: Alone, port: socket.socket) -> None:
    has_place(alone, 2)
    alone.wait_ready()
    assert not listens(port)
    has_place(alone, 1)
    wait_for(lambda: listens(port), what="a port that is open")


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
