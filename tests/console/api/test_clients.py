"""Connections, channels and consumers from the answers of acceptors."""

from __future__ import annotations

import pytest

from console.api.clients import acceptor_of, channel_name, connection_name, peer_of


@pytest.mark.parametrize(
    ("peer", "host", "port"),
    [("10.0.0.1:4711", "10.0.0.1", 4711), ("fe80::1:4711", "fe80::1", 4711), (":0", "", 0), ("gone", "", 0)],
)
def test_a_peer_is_a_host_and_a_port(peer: str, host: str, port: int) -> None:
    assert peer_of({"peer": peer}) == {"peer_host": host, "peer_port": port}


def test_names_have_the_id_of_the_connection() -> None:
    channel = {"peer": "10.0.0.1:4711", "connection": "1.2.3", "channel": 5}
    assert connection_name(channel) == "10.0.0.1:4711 -> 1.2.3"
    assert channel_name(channel) == "10.0.0.1:4711 -> 1.2.3 (5)"
    assert acceptor_of("1.2.3") == 1
