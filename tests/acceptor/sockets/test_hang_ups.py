"""Arriving bytes and hang-ups on real sockets that are not read."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import cast

import pytest

from acceptor.sockets.client_protocol import ClientProtocol
from acceptor.sockets.hang_ups import HangUps
from tests.waiting import wait_for


class Paused:
    """A paused protocol, of which only the file number is used."""

    def __init__(self, near: socket.socket) -> None:
        self.fd = near.fileno()


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            yield near, far


def watch(hang_ups: HangUps[ClientProtocol], near: socket.socket) -> ClientProtocol:
    protocol = cast(ClientProtocol, Paused(near))
    hang_ups.watch(protocol)
    return protocol


def test_bytes_are_told_once_as_they_come(ends: Ends) -> None:
    near, far = ends
    hang_ups = HangUps()
    protocol = watch(hang_ups, near)
    assert not list(hang_ups.poll())
    for _ in range(2):
        far.sendall(b"more")
        wait_for(lambda: list(hang_ups.poll()) == [(protocol, False, False)])
        assert not list(hang_ups.poll())


def test_what_had_come_before_is_told_as_well(ends: Ends) -> None:
    near, far = ends
    far.sendall(b"before")
    wait_for(lambda: near.recv(16, socket.MSG_PEEK) == b"before")
    hang_ups = HangUps()
    protocol = watch(hang_ups, near)
    assert list(hang_ups.poll()) == [(protocol, False, False)]


def test_a_side_that_is_closed_and_a_reset(ends: Ends) -> None:
    near, far = ends
    hang_ups = HangUps()
    protocol = watch(hang_ups, near)
    far.shutdown(socket.SHUT_WR)
    wait_for(lambda: list(hang_ups.poll()) == [(protocol, False, True)])
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    wait_for(lambda: [news.dead for news in hang_ups.poll()] == [True])


@pytest.mark.parametrize("checked", [False, True])
def test_one_that_is_read_again_is_not_looked_at(ends: Ends, checked: bool) -> None:
    near, far = ends
    hang_ups = HangUps()
    protocol = watch(hang_ups, near)
    if checked:
        assert not list(hang_ups.poll())
    hang_ups.forget(protocol)
    far.sendall(b"more")
    wait_for(lambda: near.recv(16, socket.MSG_PEEK) == b"more")
    assert not list(hang_ups.poll())
    hang_ups.watch(protocol)
    assert list(hang_ups.poll()) == [(protocol, False, False)]
