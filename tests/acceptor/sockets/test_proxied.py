"""Sockets of a listener that takes PROXY headers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_network

import pytest
import uvloop

from acceptor.sockets.arrivals import Arrivals
from acceptor.sockets.client_protocol import ClientProtocol
from acceptor.sockets.proxied import ProxiedProtocol, is_trusted
from tests import proxies
from tests.acceptor.sockets.test_client_protocol import START_OK, Served, until
from tests.frames import PROTOCOL_HEADER
from tests.waiting import PATIENCE

HERE = (ip_network("127.0.0.0/8"),)


class Passed:
    """One connection of a proxy."""

    def __init__(self, node: Served, arrivals: Arrivals, client: socket.socket) -> None:
        self.node = node
        self.arrivals = arrivals
        self.client = client

    @property
    def peers(self) -> list[str]:
        """The addresses of the clients that are connected."""
        return [connection.client.peer for connection in self.node.sockets.protocols]

    @property
    def reasons(self) -> list[str]:
        """The reasons for which connections were refused."""
        return [line["reason"] for line in self.node.logs if line["event"] == "connection refused"]

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def receive(self) -> bytes:
        """Return the next bytes; none at the end."""
        try:
            return await asyncio.get_running_loop().sock_recv(self.client, 1 << 16)
        except ConnectionResetError:
            return b""


def run(
    scenario: Callable[[Passed], Awaitable[None]], trusted: tuple[object, ...] = HERE, timeout: float = 1000.0
) -> None:
    """Run a scenario with one connection of a proxy."""

    async def within() -> None:
        loop = asyncio.get_running_loop()
        with Served() as node, socket.socket() as client:
            arrivals = Arrivals(node.sockets, timeout)
            make = partial(
                ProxiedProtocol, node.sockets, arrivals, "public", trusted, lambda: ClientProtocol(node.sockets)
            )
            server = await loop.create_server(make, "127.0.0.1", 0)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await asyncio.wait_for(scenario(Passed(node, arrivals, client)), PATIENCE)
            client.close()
            server.close()
            await until(lambda: not node.sockets.protocols)
            assert node.sockets.arriving == 0

    uvloop.run(within())


@pytest.mark.parametrize("header", [proxies.version_1("192.0.2.7", 4567), proxies.version_2("192.0.2.7", 4567)])
@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_the_client_is_the_one_that_the_header_names(header: bytes, cut: int) -> None:
    async def scenario(passed: Passed) -> None:
        data = header + PROTOCOL_HEADER + START_OK
        for begin in range(0, len(data), cut):
            await passed.send(data[begin : begin + cut])
            await asyncio.sleep(0)
        assert b"RabbitMQ" in await passed.receive()
        assert passed.peers == ["192.0.2.7:4567"]

    run(scenario)


def test_a_proxy_s_own_connection_has_its_own_address() -> None:
    async def scenario(passed: Passed) -> None:
        await passed.send(proxies.local() + PROTOCOL_HEADER)
        await passed.receive()
        (peer,) = passed.peers
        assert peer == "{}:{}".format(*passed.client.getsockname())

    run(scenario)


def test_more_than_a_read_may_follow_the_header_at_once() -> None:
    async def scenario(passed: Passed) -> None:
        await passed.send(proxies.version_2("2001:db8::1", 1, bytes(3000)) + PROTOCOL_HEADER + START_OK)
        assert b"RabbitMQ" in await passed.receive()
        assert passed.peers == ["2001:db8::1:1"]

    run(scenario)


@pytest.mark.parametrize("data", [PROTOCOL_HEADER, b"\x16\x03\x01" + bytes(300), b"PROXY " + b"x" * 5000])
def test_without_a_header_nobody_is_let_in(data: bytes) -> None:
    async def scenario(passed: Passed) -> None:
        await passed.send(data)
        assert await passed.receive() == b""
        assert len(passed.reasons) == 1 and "PROXY header" in passed.reasons[0]

    run(scenario)


def test_nobody_but_the_proxies_may_say_who_it_is() -> None:
    async def scenario(passed: Passed) -> None:
        assert await passed.receive() == b""
        assert passed.reasons == ["it is none of the proxies in proxy_protocol"]

    run(scenario, (ip_network("10.0.0.0/8"), ip_network("::1/128")))


def test_a_header_that_does_not_come_in_time_is_not_waited_for() -> None:
    async def scenario(passed: Passed) -> None:
        await passed.send(b"PROXY TCP4 ")
        await until(lambda: passed.node.sockets.arriving)
        passed.arrivals.tick()
        assert await passed.receive() == b""
        assert passed.reasons == ["no PROXY header came in time"]

    run(scenario, timeout=0.0)


def test_networks_of_both_families_are_compared() -> None:
    networks = ip_network("10.1.0.0/16"), ip_network("2001:db8::/32"), ip_network("192.0.2.1/32")
    hosts = ["10.1.255.1", "::ffff:10.1.2.3", "2001:db8:1::2", "192.0.2.1", "10.2.0.1", "192.0.2.2", "::1"]
    assert [is_trusted(host, networks) for host in hosts] == [True, True, True, True, False, False, False]
