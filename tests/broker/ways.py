"""The ways to a node: plain, with TLS, and through HAProxy, which passes TLS on or terminates it.

A test with `each_way` runs once for each: its fixture `address`, and those that depend on it, go that way to the
worker's broker. A test with a node of its own starts it with `listeners`, and asks `way_to` for its address.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import certificates
from tests.broker.listeners import address_of, listening
from tests.broker.process import Broker
from tests.ports import free_port
from tests.raw import Address
from tests.tls_sockets import TlsAddress
from tests.waiting import wait_for

PLAIN, TLS, PASSED_ON, TERMINATED = "plain", "tls", "passed_on", "terminated"
"""All but the first are names of listeners too."""
PROXIED = (PASSED_ON, TERMINATED)
WAYS = (PLAIN, TLS, *PROXIED)


def going(*ways: object) -> pytest.MarkDecorator:
    """Return a mark to run a test once for each of these ways."""
    return pytest.mark.parametrize("address", ways, indirect=True, scope="function")


each_way = going(*WAYS)
without_proxy = going(PLAIN, TLS)
each_proxy = going(*PROXIED)
each_way_slowly = going(PLAIN, *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[1:]))
"""Only the plain way is in the normal run."""


def listeners() -> list[str]:
    """Return the settings of a node that can be reached each way."""
    behind = "proxy_protocol=127.0.0.0/8"
    terminated = [f"listeners.{TERMINATED}.{each}" for each in ("port=0", behind)]
    return [*listening(name=TLS), *listening(behind, name=PASSED_ON), *terminated]


CONFIGURATION = """
global
    nbthread 1
    tune.rcvbuf.client 131072
    tune.sndbuf.server 131072
defaults
    mode tcp
    timeout connect 10s
    timeout client {timeout}
    timeout server {timeout}
listen passed_on
    bind 127.0.0.1:{ports[passed_on]}
    server node {passed_on.host}:{passed_on.port} send-proxy-v2
listen terminated
    bind 127.0.0.1:{ports[terminated]} ssl crt {certificate}
    server node {terminated.host}:{terminated.port} send-proxy
"""


@contextmanager
def haproxy(broker: Broker, directory: Path, timeout: str = "1h") -> Iterator[dict[str, Address]]:
    """Run HAProxy in front of a node with `listeners` to the end of the block; yield its address for each of `PROXIED`.

    `timeout`: how long it waits for a side that neither sends nor takes anything. The test is skipped if HAProxy is not
    installed.
    """
    if not shutil.which("haproxy"):
        pytest.skip("haproxy is not installed")
    ports = {way: free_port() for way in PROXIED}
    nodes = {way: address_of(broker, way) for way in PROXIED}
    configuration = directory / "haproxy.cfg"
    configuration.write_text(
        CONFIGURATION.format(ports=ports, certificate=certificates.server(), timeout=timeout, **nodes)
    )
    process = subprocess.Popen(["haproxy", "-f", str(configuration)], stdout=subprocess.DEVNULL)
    try:
        addresses: dict[str, Address] = {way: TlsAddress("127.0.0.1", port) for way, port in ports.items()}
        for address in addresses.values():
            wait_for(lambda address=address: accepts(address), what="HAProxy")
        yield addresses
    finally:
        process.kill()
        process.wait()


def accepts(address: Address) -> bool:
    """Whether a program accepts clients at an address."""
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True


def direct(broker: Broker, way: str) -> Address:
    """Return the address at which a node with `listeners` is reached without HAProxy."""
    return broker.address if way == PLAIN else TlsAddress(*address_of(broker, TLS))


@contextmanager
def way_to(broker: Broker, way: str, directory: Path) -> Iterator[Address]:
    """Yield the address at which a node with `listeners` is reached in a way."""
    if way in PROXIED:
        with haproxy(broker, directory) as addresses:
            yield addresses[way]
    else:
        yield direct(broker, way)
