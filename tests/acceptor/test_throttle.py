"""What is read from a paused socket, and when."""

from __future__ import annotations

import pytest

from acceptor.throttle import RELIEF_OCTETS
from tests.joined import Client, Node

PARKING = 1024
PIKA = "Pika Python Client Library"


def paused(node: Node, parked: int, product: str, heartbeat: int = 0) -> Client:
    """A client whose socket is paused with about so many parked octets."""
    node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
    client = node.connect(properties={"product": product}, heartbeat=heartbeat)
    client.call("channel.open", 1)
    for _ in range(2):
        client.publish(1, b"", routing_key="full")
    node.settle(1)
    client.publish(1, bytes(parked), routing_key="full")
    node.settle(1)
    assert not client.socket.reads
    return client


@pytest.mark.parametrize(
    ("parked", "overfull", "octets"),
    [(2 * PARKING, False, 0), (2 * PARKING, True, RELIEF_OCTETS), (9 * PARKING, True, 0)],
)
def test_a_receive_buffer_that_is_overfull_is_relieved_within_a_bound(parked: int, overfull: bool, octets: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, parked, PIKA)
        client.socket.overfull = overfull
        node.core(0).throttle.drip(node.core(0).now)
        assert client.socket.drips == octets


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 60), (3, 1), (60, 20), (600, 60)])
def test_a_client_that_cannot_send_its_heartbeats_is_read_as_often(heartbeat: int, seconds: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, 9 * PARKING, "aiormq", heartbeat)
        throttle = node.core(0).throttle
        throttle.drip(node.now + seconds - 0.5)
        assert not client.socket.drips
        throttle.drip(node.now + seconds)
        assert client.socket.drips == 256 * 1024
