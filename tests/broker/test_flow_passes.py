"""Methods that pass while publishes are held: acknowledgements, gets, cancels, heartbeats, closes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, SIZE, STOP, fill_socket, paused, wait_held
from tests.broker.ways import each_way
from tests.frames import publish_frames
from tests.outcomes import wait_depth, wait_get
from tests.producers import Drain, Producers
from tests.raw import Address, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

HELD = 2 * STOP
"""Messages that a test publishes in order to be held: small ones, so that all can be parked."""


def hold(publisher: Channel, queue: str) -> None:
    """Declare a queue and publish until the channel is held."""
    publisher.call("queue.declare", queue=queue, arguments=MARKS)
    for number in range(HELD):
        publisher.publish(b"%d" % number, queue)
    publisher.client.take("connection.blocked")


@each_way
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
    assert wait_get(consumer, work).body == b"4"
    consumer.send("basic.reject", delivery_tag=third.delivery_tag, requeue=True)
    wait_depth(channel, work, 2)
    assert channel.depth(queue) < HELD


def test_other_channels_can_declare_and_be_opened(client: Client, queue: str) -> None:
    hold(client.channel(), queue)
    other = client.channel()
    other.call("queue.declare", exclusive=True)
    other.call("channel.close")


@each_way
def test_heartbeats_go_both_ways_while_the_socket_is_full(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """A paused peer is not taken for dead, although its heartbeats are stuck behind its publishes."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(heartbeat=2)
    publisher = client.channel()
    data = publish_frames(publisher.number, bytes(64 * SIZE), routing_key=queue)
    sent = fill_socket(client, data, broker, queue)
    goal = client.heartbeats + 8  # one a second: long after a silent peer would have been dropped
    wait_for(lambda: not client.hung_up(timeout=0.2) and client.heartbeats >= goal, what="heartbeats")
    drain = channel.client.channel()
    drain.call("basic.consume", queue=queue, no_ack=True)
    client.write(data[sent % len(data) :])
    for _ in range(sent // len(data) + 1):
        drain.take("basic.deliver")
        client.heartbeat()
    publisher.call("queue.declare", exclusive=True)


@each_way
def test_what_a_closed_connection_had_parked_is_delivered(
    connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    """The close is answered while publishes wait, and publishes received before it are not lost."""
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


@each_way
def test_peer_that_dies_while_held_is_noticed(
    broker: Broker, connect: Callable[[], Client], channel: Channel, queue: str, names: Callable[[str], str]
) -> None:
    """A hang-up is noticed although the socket is not read: the consumer goes, its unacked messages come back."""
    work = names("work")
    channel.call("queue.declare", queue=work)
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    channel.publish(b"x", work)
    client = connect()
    consumer = client.channel()
    consumer.call("basic.consume", queue=work)
    consumer.take("basic.deliver")
    fill_socket(client, publish_frames(consumer.number, bytes(64 * SIZE), routing_key=queue), broker, queue)
    client.kill()
    wait_depth(channel, work, 1)
    assert channel.call("queue.declare", queue=work, passive=True).consumers == 0


@each_way
def test_peer_that_hangs_up_while_held_leaves_nothing(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """A peer shuts down its side with more in the socket than the drip reads in a long time; nothing stays parked."""
    client = connect()
    publisher = client.channel()
    hold(publisher, queue)
    client.write(6 * publish_frames(publisher.number, bytes(64 * SIZE), routing_key=queue))
    wait_for(lambda: paused(broker, queue))
    client.socket.shutdown(socket.SHUT_WR)
    assert client.hung_up()
    channel.call("queue.delete", queue=queue)
    wait_for(lambda: parked(broker) == 0)


def parked(broker: Broker) -> int:
    status = json.loads(broker.penstock("status", "--json").stdout)
    return sum(process["parked_bytes"] + process["paused_connections"] for process in status["processes"])


def test_held_producer_that_leaves_lets_the_others_in(
    address: Address, connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    """Room offered to a producer that has gone is not lost."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with Producers(address, [queue] * 20, size=SIZE, count=5000) as gone:
        wait_held(channel, queue, gone)
    client = connect()
    publisher = client.channel()
    publisher.publish(b"the last one", queue)
    drain = channel.client.channel()
    drain.call("basic.consume", queue=queue, no_ack=True)
    wait_for(lambda: drain.take("basic.deliver").body == b"the last one", interval=0)


def test_parked_contents_go_to_disk_beyond_the_share_of_memory(tmp_path: Path) -> None:
    """Parked contents go to a file without a name, which is empty again once all of them have left."""
    settings = ("flow.parked_memory=128 KiB", "flow.parking_bytes=64 KiB")
    with Broker(tmp_path, *settings) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="full", durable=True, arguments=MARKS)
        with Producers(broker.address, ["full"] * 10, size=SIZE, count=1000) as producers:
            wait_held(channel, "full", producers)
            wait_for(lambda: spooled(broker) > 200_000, what="contents to go to disk")
            Drain(client, "full").take(10_000)
            wait_for(lambda: spooled(broker) == 0, what="the file to be empty")
            assert producers.alive == 10


def spooled(broker: Broker) -> int:
    """Return the size of the file of parked contents in bytes."""
    (pid,) = broker.children("acceptor")
    total = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # another file, closed by now
            total += os.stat(each).st_size if "/parked-" in os.readlink(each) else 0
    return total
