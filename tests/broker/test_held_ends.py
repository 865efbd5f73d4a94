"""Ends of a held connection, by its client's close or death, and answers to its other channels."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.broker.ways import each_proxy, each_way, without_proxy
from tests.frames import publish_frames
from tests.raw import Channel, Client
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

SIZE = 4096


def fill(client: Client, queue: str) -> None:
    """Publish until the socket has accepted nothing for some time."""
    data = publish_frames(1, bytes(SIZE), routing_key=queue)
    pending = memoryview(b"")
    written = 0

    def push() -> int:
        nonlocal pending, written
        client.poll()
        while client.ready(select.POLLOUT, 0):
            pending = pending or memoryview(data)
            sent = client.socket.send(pending, socket.MSG_DONTWAIT)
            pending, written = pending[sent:], written + sent
        return written

    settled(push, quiet=2.0)


def is_held(broker: Broker, queue: str) -> bool:
    return any(cause.get("name") == queue for held in broker.held() for cause in held["causes"])


@without_proxy
@pytest.mark.long
def test_a_producer_that_dies_while_its_socket_is_full_is_noticed(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """The end itself does not arrive, because unsent bytes are queued before it."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(heartbeat=0)
    client.channel()
    fill(client, queue)
    assert is_held(broker, queue)
    client.socket.close()
    wait_for(lambda: not is_held(broker, queue), what="nobody held any more")


@pytest.mark.long
@each_proxy
def test_a_producer_that_dies_behind_a_proxy_is_noticed_as_soon_as_there_is_room(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """The proxy has yet to pass on what it has read of it, and keeps its connection for that."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(heartbeat=0)
    client.channel()
    fill(client, queue)
    peer = f"127.0.0.1:{client.socket.getsockname()[1]}"
    client.socket.close()
    assert is_held(broker, queue)

    def gone() -> bool:
        channel.call("queue.purge", queue=queue)
        found = json.loads(broker.penstock("connection", "list", "--json").stdout)
        return peer not in {each["peer"] for each in found}

    wait_for(gone, what="no connection of the producer")


@each_way
@pytest.mark.parametrize("nbytes", [200_000, 400_000, 600_000])
def test_a_close_and_other_channels_are_answered_behind_what_is_held(
    connect: Callable[..., Client], channel: Channel, queue: str, nbytes: int
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect()
    publisher, other = client.channel(), client.channel()
    count = STOP + nbytes // SIZE
    for _ in range(count):
        publisher.publish(bytes(SIZE), queue)
    other.call("queue.declare", exclusive=True)
    client.close()
    channel.call("queue.purge", queue=queue)
    wait_for(lambda: channel.depth(queue) + STOP > nbytes // SIZE, what="what was parked")
