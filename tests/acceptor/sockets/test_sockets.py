"""The state shared by the sockets of an acceptor's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from acceptor.amqp.read_size import LARGE_READ_BYTES
from acceptor.sockets.sockets import Sockets
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


class Stalled:
    """A socket whose reads are kept. When it resumes, it may be stalled `again`."""

    fd = -1

    def __init__(self, sockets: Sockets[Stalled], again: bool = False) -> None:
        self.sockets = sockets
        self.again = again
        self.resumed = 0

    def unstall(self) -> None:
        self.resumed += 1
        if self.again:
            self.sockets.stalled.append(self)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def sockets(node: Node, loop: asyncio.AbstractEventLoop) -> Sockets[Stalled]:
    return Sockets(loop, node.core(0), 2, lambda: None)


def test_stalled_sockets_resume_once_when_the_replica_has_caught_up(node: Node, sockets: Sockets[Stalled]) -> None:
    once, again = Stalled(sockets), Stalled(sockets, again=True)
    sockets.stalled += [once, again]
    node.gauges.set_topology_version(node.version + 1)
    sockets.caught_up()
    assert (once.resumed, again.resumed) == (0, 0)
    node.gauges.set_topology_version(node.version)
    sockets.caught_up()
    assert (once.resumed, again.resumed) == (1, 1)
    assert sockets.stalled == [again]


def test_there_is_room_for_so_many_clients(node: Node, sockets: Sockets[Stalled]) -> None:
    clients: list[Client] = [node.visit(), node.visit()]
    for client in clients:
        assert sockets.have_room_for("peer")
        sockets.protocols[client.connection] = Stalled(sockets)
    assert not sockets.have_room_for("peer")
    del sockets.protocols[clients[0].connection]
    assert sockets.have_room_for("peer")


def test_the_buffer_holds_a_large_read_behind_a_part_of_the_largest_frame(
    node: Node, sockets: Sockets[Stalled]
) -> None:
    assert len(sockets.buffer) > LARGE_READ_BYTES + node.settings.amqp.frame_max


def test_the_core_has_the_time_of_the_loop(
    node: Node, loop: asyncio.AbstractEventLoop, sockets: Sockets[Stalled]
) -> None:
    before = loop.time()
    sockets.set_clock()
    assert before <= node.core(0).state.now <= loop.time()
