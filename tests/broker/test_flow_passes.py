"""What goes on while publishes are held: acknowledgements, gets, cancels, heartbeats, closing."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import pytest

from tests.broker.flow import MARKS, SIZE, STOP, wait_held
from tests.frames import publish_frames
from tests.outcomes import wait_depth, wait_get
from tests.producers import Producers
from tests.raw import Address, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

HELD = 2 * STOP
"""Messages that a test publishes to a queue it wants to be held by: small ones, so that they can all be parked."""


def hold(publisher: Channel, queue: str) -> None:
    """Declare the queue and publish until the channel is held."""
    publisher.call("queue.declare", queue=queue, arguments=MARKS)
    for number in range(HELD):
        publisher.publish(b"%d" % number, queue)
    publisher.client.take("connection.blocked")


@pytest.mark.parametrize("same_channel", [True, False])
def test_settling_getting_and_cancelling_go_on(
    connect: Callable[[], Client], channel: Channel, queue: str, names: Callable[[str], str], same_channel: bool
) -> None:
    work = names("work")
    client = connect()
    consumer = client.channel()
    consumer.call("queue.declare", queue=work)
    for number in range(6):
        channel.publish(b"%d" % number, work)
    consumer.call("basic.qos", prefetch_count=2)
    consumer.call("basic.consume", queue=work, consumer_tag="c")
    hold(consumer if same_channel else client.channel(), queue)

    first, second = (consumer.take("basic.deliver") for _ in range(2))
    consumer.send("basic.ack", delivery_tag=first.delivery_tag)
    assert consumer.take("basic.deliver").body == b"2"
    consumer.send("basic.nack", delivery_tag=second.delivery_tag, requeue=False)
    third = consumer.take("basic.deliver")
    assert third.body == b"3"
    assert consumer.call("basic.cancel", consumer_tag="c").consumer_tag == "c"
    got = consumer.get(work)
    assert got and got.body == b"4"
    consumer.send("basic.reject", delivery_tag=third.delivery_tag, requeue=True)
    wait_depth(channel, work, 2)
    assert channel.depth(queue) < HELD


def test_other_channels_can_declare_and_be_opened(client: Client, queue: str) -> None:
    hold(client.channel(), queue)
    other = client.channel()
    other.call("queue.declare", exclusive=True)
    other.call("channel.close")


def test_heartbeats_go_both_ways_while_the_socket_is_full(
    connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """A paused peer is not declared dead for being paused: its own heartbeats are stuck behind what it published."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(heartbeat=1)
    publisher = client.channel()
    octets = publish_frames(publisher.number, bytes(64 * SIZE), routing_key=queue)
    sent = fill_socket(client, octets)
    before, deadline = client.heartbeats, time.monotonic() + 5
    while time.monotonic() < deadline:
        assert not client.hung_up(timeout=0.2)
    assert client.heartbeats >= before + 3
    drain = channel.client.channel()
    drain.call("basic.consume", queue=queue, no_ack=True)
    client.write(octets[sent % len(octets) :] if sent % len(octets) else b"")
    for _ in range(-(-sent // len(octets))):
        drain.take("basic.deliver")
    publisher.call("queue.declare", exclusive=True)


def fill_socket(client: Client, octets: bytes, quiet: float = 0.5) -> int:
    """Write the octets again and again until the socket has taken nothing for `quiet` seconds; how many it took."""
    sent, since = 0, time.monotonic()
    while time.monotonic() - since < quiet:
        ready = client.ready(select.POLLIN | select.POLLOUT, quiet)
        if ready & select.POLLOUT:
            sent += client.socket.send(octets[sent % len(octets) :], socket.MSG_DONTWAIT)
            since = time.monotonic()
        if ready & select.POLLIN:
            client.receive()
    return sent


def test_what_a_closed_connection_had_parked_is_delivered(
    connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    """Close is answered while publishes wait, and what was received before it is not lost."""
    client = connect()
    hold(client.channel(), queue)
    client.close()
    for number in range(HELD):
        assert wait_get(channel, queue).body == b"%d" % number


def test_what_a_closed_channel_had_parked_is_delivered(client: Client, channel: Channel, queue: str) -> None:
    publisher = client.channel()
    hold(publisher, queue)
    publisher.call("channel.close")
    for number in range(HELD):
        assert wait_get(channel, queue).body == b"%d" % number


def test_peer_that_dies_while_held_is_noticed(
    address: Address, connect: Callable[[], Client], channel: Channel, queue: str, names: Callable[[str], str]
) -> None:
    """Hang-ups are seen although nothing is read: its consumer goes, its unacked messages come back."""
    work = names("work")
    channel.call("queue.declare", queue=work)
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    channel.publish(b"x", work)
    client = connect()
    consumer = client.channel()
    consumer.call("basic.consume", queue=work)
    consumer.take("basic.deliver")
    fill_socket(client, publish_frames(consumer.number, bytes(64 * SIZE), routing_key=queue))
    client.kill()
    wait_depth(channel, work, 1)
    assert channel.call("queue.declare", queue=work, passive=True).consumers == 0


def test_held_producer_that_leaves_lets_the_others_in(
    address: Address, connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    """A turn that is given to someone who has gone is not lost."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with Producers(address, [queue] * 20, size=SIZE, count=5000) as gone:
        wait_held(channel, queue, gone)
    client = connect()
    publisher = client.channel()
    publisher.publish(b"the last one", queue)
    drain = channel.client.channel()
    drain.call("basic.consume", queue=queue, no_ack=True)
    wait_for(lambda: drain.take("basic.deliver").body == b"the last one", interval=0)
