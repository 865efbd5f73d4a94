from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

from load.peer import BASIC_DELIVER, Peer
from load.wire import method_frame


def test_what_came_behind_the_handshake_is_read_though_nothing_more_comes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire: Any = SimpleNamespace(socket=ours, received=method_frame(1, BASIC_DELIVER, b"\0"))
        peer = Peer(wire)
        assert list(peer.methods()) == [(BASIC_DELIVER, b"\0")]
        assert list(peer.methods()) == []
