"""The reservation of the port: exclusive against others, open to our own acceptors."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ops.errors import StartError
from ops.port import reserved, show
from tests.ports import free_port

LOOPBACK = "127.0.0.1"


@contextmanager
def listening(port: int, *options: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
        yield listener


def refusal(host: str, port: int) -> str:
    with pytest.raises(StartError) as caught, reserved(host, port):
        pass
    return str(caught.value)


def meet(listener: socket.socket) -> None:
    """One connection that the listener's side closes first, which leaves the port in TIME_WAIT."""
    with socket.create_connection(listener.getsockname()) as client:
        listener.accept()[0].close()
        assert client.recv(1) == b""


def test_acceptors_share_a_reserved_port_and_get_every_connection() -> None:
    with reserved(LOOPBACK, 0) as port:
        for _ in range(20):
            with listening(port, socket.SO_REUSEPORT) as one:
                meet(one)
        with listening(port, socket.SO_REUSEPORT), listening(port, socket.SO_REUSEPORT, socket.SO_REUSEADDR):
            pass


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,)])
def test_a_taken_port_is_refused(options: tuple[int, ...]) -> None:
    with listening(0, *options) as other:
        port = other.getsockname()[1]
        assert refusal(LOOPBACK, port) == f"cannot listen on {LOOPBACK}:{port}: the port is taken"


def test_a_reserved_port_is_taken_before_anyone_listens() -> None:
    with reserved(LOOPBACK, 0) as port:
        assert refusal(LOOPBACK, port).endswith("the port is taken")
        assert refusal("0.0.0.0", port).endswith("the port is taken")


def test_connections_of_the_past_do_not_matter() -> None:
    port = free_port()
    with listening(port, socket.SO_REUSEADDR) as other:
        meet(other)
    with reserved(LOOPBACK, port) as again:
        assert again == port
        assert refusal(LOOPBACK, port).endswith("the port is taken")
        with listening(port, socket.SO_REUSEPORT, socket.SO_REUSEADDR) as acceptor:
            meet(acceptor)
    with reserved(LOOPBACK, port) as again:
        assert again == port


def test_an_address_that_is_not_ours_is_named() -> None:
    assert refusal("192.0.2.1", 5672) == "cannot listen on 192.0.2.1:5672: Cannot assign requested address"
    assert refusal("no.such.host.invalid", 5672).startswith("cannot listen on no.such.host.invalid:5672: ")


def test_ipv6_is_bracketed() -> None:
    assert show("::1", 5672) == "[::1]:5672"
    assert show("localhost", 5672) == "localhost:5672"
