from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

from load.held_clients import Producer
from load.peer import BASIC_DELIVER, CHANNEL_FLOW, HEARTBEAT, JAVA, Peer
from load.wire import method_frame


def test_what_came_behind_the_handshake_is_read_though_nothing_more_comes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire: Any = SimpleNamespace(socket=ours, received=method_frame(1, BASIC_DELIVER, b"\0"))
        peer = Peer(wire)
        assert list(peer.methods()) == [(BASIC_DELIVER, b"\0")]
        assert list(peer.methods()) == []


def test_a_producer_that_was_told_to_stop_answers_heartbeats_and_says_nothing_else() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire: Any = SimpleNamespace(socket=ours, received=b"")
        producer = Producer(JAVA, 1, wire, "q", 100)
        theirs.sendall(method_frame(1, CHANNEL_FLOW, b"\0") + HEARTBEAT)
        assert producer.read() == ""
        producer.write()
        assert producer.write() == 0
        assert theirs.recv(4096).endswith(HEARTBEAT)
