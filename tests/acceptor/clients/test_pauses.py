"""Reasons not to read a connection: it is read when none remains."""

from __future__ import annotations

from acceptor.clients.pauses import BODIES, HELD, OUTPUT
from tests.simulator.joined.node import Node


def test_a_connection_is_read_again_with_the_last_reason_gone() -> None:
    with Node() as node:
        client = node.connect()
        connection, socket = client.connection, client.socket
        connection.pause_reading(OUTPUT)
        connection.pause_reading(BODIES)
        connection.resume_reading(OUTPUT)
        assert not connection.reads and not socket.reads
        connection.resume_reading(HELD)  # never was a reason
        assert not socket.reads
        connection.resume_reading(BODIES)
        assert connection.reads and socket.reads


def test_a_drip_is_for_those_who_are_held_and_for_nothing_else() -> None:
    with Node() as node:
        client = node.connect()
        client.connection.pause_reading(HELD)
        client.connection.drip(100)
        assert client.socket.drips == 100
        client.socket.drips = 0
        client.connection.pause_reading(OUTPUT)
        client.connection.drip(100)
        assert client.socket.drips == 0
