"""What a paused connection still takes, and what becomes of it where a proxy in between gives it up."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker import Broker, ways
from tests.broker.flow import MARKS, STOP, fill_socket, most
from tests.broker.ways import each_way
from tests.frames import publish_frames
from tests.producers import Ledger, Producers
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

KIB, MIB = 1 << 10, 1 << 20
SIZE = 16 * KIB
READ_MOST = 3 * MIB // 2
"""Eight times the budget of parked publishes, and a few reads."""
SOCKETS_MOST = 3 * MIB
"""What kernels and a proxy of the tests' configuration buffer between the client and the node."""
SEND_BUFFER = 64 * KIB


def parked(broker: Broker, queue: str) -> int:
    """Return the bytes that are parked for a queue."""
    return sum(held["parked_bytes"] for held in broker.held() if held["causes"][0].get("name") == queue)


def is_held(broker: Broker, queue: str) -> bool:
    """Whether a channel is held by a queue."""
    return any(cause.get("name") == queue for held in broker.held() for cause in held["causes"])


def left_behind(broker: Broker) -> int:
    """Return the bytes that are parked at all acceptors."""
    status = json.loads(broker.penstock("status", "--json").stdout)
    return sum(process["parked_bytes"] for process in status["processes"])


@each_way
def test_a_paused_connection_takes_a_bounded_amount(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """Ciphertext is not read either: what the client may still send are the buffers of sockets."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    publisher = client.channel()
    data = publish_frames(publisher.number, bytes(SIZE), routing_key=queue)
    sent = fill_socket(client, data, broker, queue, quiet=2.0)
    assert parked(broker, queue) <= READ_MOST
    assert sent - channel.depth(queue) * SIZE <= READ_MOST + SOCKETS_MOST


@pytest.mark.parametrize("way", ways.PROXIED)
def test_what_was_read_is_delivered_where_a_proxy_gives_up(
    broker: Broker, channel: Channel, queue: str, tmp_path: Path, way: str
) -> None:
    """HAProxy waits for a side that takes nothing for `timeout server`; then it hangs up on both."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with (
        ways.haproxy(broker, tmp_path, timeout="2s") as addresses,
        Producers(addresses[way], [queue], size=SIZE, batch=1) as producers,
    ):
        wait_for(lambda: producers.alive == 0, what="HAProxy to hang up")
        wait_for(lambda: not is_held(broker, queue), what="nobody held any more")
    ledger = Ledger()

    def emptied() -> bool:
        got = channel.get(queue)
        if got is not None:
            ledger.note(got.body)
        return got is None and not left_behind(broker)

    wait_for(emptied, interval=0)
    assert ledger.total > most(STOP)
