"""The port of the node: exclusive against others, open to our own acceptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ops.errors import StartError
from ops.port import bound, refuse, show
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
    with pytest.raises(StartError) as caught, bound(host, port):
        pass
    return str(caught.value)


def meet(listener: socket.socket) -> None:
    """Make a connection that the listener's side closes first, which leaves the port in TIME_WAIT."""
    with socket.create_connection(listener.getsockname()) as client:
        listener.accept()[0].close()
        assert client.recv(1) == b""


def inherited(port: socket.socket) -> socket.socket:
    """Return a listening copy of a socket, as another process inherits it."""
    copy = socket.socket(fileno=os.dup(port.fileno()))
    copy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    copy.listen()
    return copy


def test_a_client_stays_when_an_acceptor_goes() -> None:
    with bound(LOOPBACK, 0) as port:
        one, two = inherited(port), inherited(port)
        with socket.create_connection(port.getsockname()) as client, two:
            one.close()
            two.accept()[0].close()
            assert client.recv(1) == b""


def test_nobody_connects_before_an_acceptor_listens_and_after_the_end() -> None:
    with bound(LOOPBACK, 0) as port:
        address = port.getsockname()
        refuse(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with inherited(port) as acceptor:
            meet(acceptor)
            refuse(port)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            with pytest.raises(OSError, match="Invalid argument"):
                acceptor.accept()


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,)])
def test_a_taken_port_is_refused(options: tuple[int, ...]) -> None:
    with listening(0, *options) as other:
        port = other.getsockname()[1]
        assert refusal(LOOPBACK, port) == f"cannot listen on {LOOPBACK}:{port}: the port is taken"


def test_a_bound_port_is_taken_before_anyone_listens() -> None:
    with bound(LOOPBACK, 0) as port:
        number = port.getsockname()[1]
        assert refusal(LOOPBACK, number).endswith("the port is taken")
        assert refusal("0.0.0.0", number).endswith("the port is taken")


def test_connections_of_the_past_do_not_matter() -> None:
    number = free_port()
    with listening(number, socket.SO_REUSEADDR) as other:
        meet(other)
    for _ in range(2):
        with bound(LOOPBACK, number) as port:
            assert port.getsockname()[1] == number
            assert refusal(LOOPBACK, number).endswith("the port is taken")
            with inherited(port) as acceptor:
                meet(acceptor)
                assert refusal(LOOPBACK, number).endswith("the port is taken")


def test_an_address_that_is_not_ours_is_named() -> None:
    assert refusal("192.0.2.1", 5672) == "cannot listen on 192.0.2.1:5672: Cannot assign requested address"
    assert refusal("no.such.host.invalid", 5672).startswith("cannot listen on no.such.host.invalid:5672: ")


def test_ipv6_is_bracketed() -> None:
    assert show("::1", 5672) == "[::1]:5672"
    assert show("localhost", 5672) == "localhost:5672"
