"""Two acceptors that listen on one socket."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from acceptor.sockets import listener
from acceptor.sockets.listener import ANSWERS_SECONDS, Listener, Neighbours
from penstock.memory.gauges import DEAD, READY, Gauges
from penstock.process.pulse import Work
from tests.waiting import PATIENCE

RECEIVE_BUFFER = 65536


class Protocol(asyncio.Protocol):
    def __init__(self, met: asyncio.Queue[asyncio.BaseTransport]) -> None:
        self.met = met

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.met.put_nowait(transport)


class Acceptor:
    """One of the two acceptors; `met` has its clients' transports."""

    def __init__(
        self,
        port: socket.socket,
        stands_back: Callable[[], bool] = lambda: False,
        refuses: Callable[[str], bool] | None = None,
    ) -> None:
        self.met: asyncio.Queue[asyncio.BaseTransport] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self.listener = Listener(loop, os.dup(port.fileno()), lambda: Protocol(self.met), stands_back, refuses)
        self.listener.start(RECEIVE_BUFFER)

    async def meets(self) -> socket.socket:
        """Return the next client's socket."""
        transport = await self.met.get()
        met: socket.socket = transport.get_extra_info("socket")
        return met

    def close(self) -> None:
        self.listener.close()
        while not self.met.empty():
            self.met.get_nowait().close()


class Accepting:
    """An acceptor's socket that counts calls of `accept`; the first calls have these `failures` (errno)."""

    def __init__(self, acceptor: Acceptor, failures: list[int]) -> None:
        self.socket = acceptor.listener._socket
        self.failures = failures
        self.calls = 0
        acceptor.listener._socket = self  # type: ignore[assignment]

    def accept(self) -> object:
        self.calls += 1
        if self.failures:
            raise OSError(self.failures.pop(0), "failed")
        return self.socket.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self.socket, name)


def run(scenario: Callable[[socket.socket], Awaitable[None]]) -> None:
    async def within() -> None:
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            await asyncio.wait_for(scenario(port), PATIENCE)

    uvloop.run(within())


def test_a_client_is_met() -> None:
    async def scenario(port: socket.socket) -> None:
        one = Acceptor(port)
        with socket.create_connection(port.getsockname()) as client:
            met = await one.meets()
            assert met.getpeername() == client.getsockname()
            assert met.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert met.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * RECEIVE_BUFFER
        one.close()

    run(scenario)


def test_who_stands_back_leaves_clients_to_the_other() -> None:
    async def scenario(port: socket.socket) -> None:
        one, two = Acceptor(port, lambda: True), Acceptor(port)
        clients = [socket.create_connection(port.getsockname()) for _ in range(3)]
        for _ in clients:
            await two.meets()
        one.close()
        two.close()
        for client in clients:
            client.close()

    run(scenario)


def test_who_stands_back_takes_what_nobody_takes() -> None:
    async def scenario(port: socket.socket) -> None:
        one = Acceptor(port, lambda: True)
        clients = [socket.create_connection(port.getsockname()) for _ in range(40)]
        for _ in clients:
            await one.meets()
        one.close()
        for client in clients:
            client.close()

    run(scenario)


def test_who_is_refused_is_hung_up_on_and_others_are_met() -> None:
    async def scenario(port: socket.socket) -> None:
        one = Acceptor(port, refuses=lambda host: host == "127.0.0.2")
        address = port.getsockname()
        with (
            socket.create_connection(address, source_address=("127.0.0.2", 0)) as refused,
            socket.create_connection(address) as client,
        ):
            met = await one.meets()
            assert met.getpeername() == client.getsockname()
            assert refused.recv(1) == b""
        one.close()

    run(scenario)


def test_clients_of_one_that_goes_wait_for_the_other() -> None:
    async def scenario(port: socket.socket) -> None:
        one, two = Acceptor(port), Acceptor(port)
        one.close()
        with socket.create_connection(port.getsockname()):
            await two.meets()
        two.close()

    run(scenario)


def test_want_of_files_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REST_SECONDS", 0.01)

    async def scenario(port: socket.socket) -> None:
        one = Acceptor(port)
        accepting = Accepting(one, [errno.EMFILE, errno.ECONNABORTED, errno.EAGAIN])
        with socket.create_connection(port.getsockname()):
            await one.meets()
        assert (accepting.failures, accepting.calls) == ([], 4)
        one.close()

    run(scenario)


def test_the_end_of_the_node_is_no_trouble() -> None:
    async def scenario(port: socket.socket) -> None:
        one = Acceptor(port)
        accepting = Accepting(one, [])
        port.shutdown(socket.SHUT_RD)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(port.getsockname())
        while not accepting.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert accepting.calls == 1
        one.close()

    run(scenario)


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=3, shards=1, queues=1, pid=os.getpid()) as gauges:
        yield gauges


def show(gauges: Gauges, index: int, clients: int, beat: float, state: int = READY) -> None:
    gauges.process_write("acceptor", index, pid=1, incarnation=1, state=state, started_us=1, restarts=0)
    gauges.beat("acceptor", index, 1, int(beat * 1e6), Work.SERVING)
    gauges.counters_write("acceptor", index, clients, *range(19))


def test_others_that_answer_count(gauges: Gauges, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    others = Neighbours(gauges, 1)
    assert not others.have_fewer_than(1)
    show(gauges, 0, 5, now)
    show(gauges, 1, 1, now)
    show(gauges, 2, 7, now - 1)
    others.count_clients()
    assert [others.have_fewer_than(own) for own in (4, 5, 6)] == [False, False, True]
    show(gauges, 0, 5, now - 2 * ANSWERS_SECONDS)
    others.count_clients()
    assert [others.have_fewer_than(own) for own in (7, 8)] == [False, True]
    show(gauges, 2, 7, now, DEAD)
    others.count_clients()
    assert not others.have_fewer_than(8)
