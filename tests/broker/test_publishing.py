"""Publishing: unchanged properties and bodies, returns and confirms (specification: class Basic)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Names
from tests.frames import Timestamp, publish_frames
from tests.outcomes import Confirms, bodies, wait_get
from tests.raw import Channel, Client

pytestmark = pytest.mark.broker

ALL_PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {
        "boolean": True,
        "integer": -(2**40),
        "double": 0.5,
        "string": "Wehr, 水門",
        "nothing": None,
        "time": Timestamp(1_700_000_000),
        "octets": b"\x00\xff",
        "list": [1, "two", [3.0], {"four": 4}],
        "table": {"inner": {"inmost": []}},
    },
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "3600000",
    "message_id": "id",
    "timestamp": 1_700_000_000,
    "type": "type",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


@pytest.mark.parametrize(
    "properties",
    [{}, ALL_PROPERTIES, *({name: value} for name, value in ALL_PROPERTIES.items()), {"headers": {}}],
    ids=lambda properties: "all" if len(properties) > 1 else "".join(properties) or "none",
)
def test_properties_arrive_as_they_were_sent(channel: Channel, properties: dict[str, Any]) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("basic.consume", queue=queue, no_ack=True)
    channel.publish(b"x", queue, **properties)
    assert channel.take("basic.deliver").properties == properties


SIZES = [0, 1, 7, 8, 4087, 4088, 4089, 4096, 65_535, 131_063, 131_064, 131_065, 131_072, 262_128, 1_000_000, 5_000_000]


@pytest.mark.parametrize("frame_max", [4096, 131_072])
def test_bodies_of_all_sizes(connect: Callable[..., Client], frame_max: int) -> None:
    """A body is cut at frame-max less 8 (section 4.2.6.3); the reader checks that no frame exceeds frame-max."""
    publisher, consumer = connect().channel(), connect(frame_max=frame_max).channel()
    queue = consumer.call("queue.declare").queue
    noise = random.Random(0)
    try:
        for size in SIZES:
            body = noise.randbytes(size)
            publisher.publish(body, queue)
            if size % 2:
                consumer.call("basic.consume", queue=queue, no_ack=True, consumer_tag="c")
                got = consumer.take("basic.deliver")
                consumer.call("basic.cancel", consumer_tag="c")
            else:
                got = wait_get(consumer, queue)
            assert (size, hashlib.sha1(got.body).digest()) == (size, hashlib.sha1(body).digest())
    finally:
        consumer.call("queue.delete", queue=queue)


def test_large_and_small_bodies_keep_their_order(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    sizes = [10, 400_000, 0, 20, 1_500_000, 3, 131_064, 1]
    for number, size in enumerate(sizes):
        channel.publish(bytes([number]) * size, queue)
    channel.call("basic.consume", queue=queue, no_ack=True)
    for number, size in enumerate(sizes):
        assert channel.take("basic.deliver").body == bytes([number]) * size


def test_publisher_with_small_frames(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    body = random.Random(1).randbytes(300_000)
    connect(frame_max=4096).channel().publish(body, queue)
    channel.call("basic.consume", queue=queue, no_ack=True)
    assert channel.take("basic.deliver").body == body


def test_order_of_many(connect: Callable[..., Client], queue: str) -> None:
    """Section 4.7: messages of one channel, exchange, queue and consumer stay in order."""
    publisher, consumer = connect().channel(), connect().channel()
    publisher.call("queue.declare", queue=queue)
    count = 20_000
    consumer.call("basic.consume", queue=queue, no_ack=True)
    publisher.client.write(b"".join(publish_frames(1, b"%d" % number, routing_key=queue) for number in range(count)))
    for number in range(count):
        assert consumer.take("basic.deliver").body == b"%d" % number


def test_mandatory_without_route_comes_back_whole(channel: Channel) -> None:
    body = bytes(range(256)) * 1000
    channel.publish(body, "nowhere", "amq.direct", mandatory=True, **ALL_PROPERTIES)
    returned = channel.take("basic.return")
    assert (returned.code, returned.text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == ("amq.direct", "nowhere")
    assert (returned.body, returned.properties) == (body, ALL_PROPERTIES)


def test_without_mandatory_what_has_no_route_is_dropped(channel: Channel) -> None:
    channel.publish(b"x", "nowhere")
    channel.call("queue.declare", exclusive=True)
    assert not channel.pending()


def test_mandatory_with_route_is_not_returned(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.publish(b"x", queue, mandatory=True)
    assert bodies(channel, queue) == [b"x"]
    assert not channel.pending()


def test_missing_exchange_closes_the_channel_and_drops_the_rest(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.publish(b"1", queue)
    channel.publish(b"2", "k", "surely-not-there")
    channel.publish(b"3", queue)
    refused = channel.closed()
    assert (refused.code, refused.text) == (404, "NOT_FOUND - no exchange 'surely-not-there' in vhost '/'")
    assert (refused.event.class_id, refused.event.method_id) == (60, 40)
    assert bodies(channel.client.channel(), queue) == [b"1"]


def test_confirms(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    confirms = Confirms(channel)
    for number in range(1000):
        confirms.publish(b"%d" % number, queue)
    confirms.wait()
    assert confirms.acked == set(range(1, 1001))


def test_confirms_count_from_select(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.publish(b"before", queue)
    confirms = Confirms(channel)
    confirms.publish(b"after", queue)
    confirms.wait()
    assert confirms.acked == {1}
    channel.call("confirm.select")
    assert confirms.publish(b"a second select changes nothing", queue) == 2
    confirms.wait()


def test_return_comes_before_its_ack(channel: Channel) -> None:
    channel.call("confirm.select")
    for _ in range(50):
        channel.publish(b"x", "nowhere", mandatory=True)
    names = []
    acked = 0
    while acked < 50:
        event = channel.next()
        names.append(event.name)
        if event.name == "basic.ack":
            acked = event.delivery_tag if event.multiple else acked + 1
            assert names.count("basic.return") >= event.delivery_tag
    assert names.count("basic.return") == 50


def test_what_has_no_route_is_confirmed(channel: Channel) -> None:
    confirms = Confirms(channel)
    confirms.publish(b"x", "nowhere")
    confirms.publish(b"x", "nowhere", "amq.fanout")
    confirms.wait()
    assert confirms.acked == {1, 2}


def test_persistent_to_durable_is_confirmed(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, durable=True)
    confirms = Confirms(channel)
    for _ in range(10):
        confirms.publish(b"x", queue, delivery_mode=2)
    confirms.wait()
    assert not confirms.nacked


def test_confirm_of_one_to_many_queues(channel: Channel) -> None:
    queues = [channel.call("queue.declare", exclusive=True).queue for _ in range(10)]
    for queue in queues:
        channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queues[0])
    confirms = Confirms(channel)
    for number in range(100):
        confirms.publish(b"%d" % number, queues[0], "amq.direct")
    confirms.wait()
    assert confirms.acked == set(range(1, 101))
    for queue in queues:
        assert bodies(channel, queue) == [b"%d" % number for number in range(100)]


def test_deleted_queue_counts_as_confirmed(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    confirms = Confirms(channel)
    other = connect().channel()
    for round_ in range(10):
        other.call("queue.declare", queue=queue)
        for number in range(50):
            confirms.publish(b"%d %d" % (round_, number), queue)
        other.call("queue.delete", queue=queue)
    confirms.wait()
    assert not confirms.nacked


def test_each_channel_counts_its_own_confirms(client: Client, queue: str) -> None:
    channels = [client.channel() for _ in range(5)]
    channels[0].call("queue.declare", queue=queue)
    confirms = [Confirms(channel) for channel in channels]
    for number in range(100):
        confirms[number % 5].publish(b"%d" % number, queue)
    for each in confirms:
        each.wait()
        assert each.acked == set(range(1, 21))


def test_message_without_body_in_confirm_mode(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    confirms = Confirms(channel)
    for _ in range(3):
        confirms.publish(b"", queue)
    confirms.wait()
    assert bodies(channel, queue) == [b""] * 3


def test_further_routing_keys_and_the_hidden_ones(channel: Channel, names: Names) -> None:
    """RabbitMQ's sender-selected distribution: both headers route, BCC is not delivered."""
    queues = [names("q") for _ in range(3)]
    for queue in queues:
        channel.call("queue.declare", queue=queue, exclusive=True)
    channel.publish(b"x", queues[0], headers={"CC": [queues[1]], "BCC": [queues[2]], "kept": 1})
    for queue in queues:
        assert wait_get(channel, queue).properties == {"headers": {"CC": [queues[1]], "kept": 1}}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"headers": {"CC": "a"}}, 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
        ({"expiration": "12abc"}, "invalid expiration '12abc': {leftover_string,\"abc\"}"),
    ],
)
def test_messages_that_may_not_be_taken(channel: Channel, queue: str, properties: dict[str, Any], reason: str) -> None:
    channel.call("queue.declare", queue=queue, exclusive=True)
    channel.publish(b"x", queue, **properties)
    refused = channel.closed()
    assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - {reason}")
    assert (refused.event.class_id, refused.event.method_id) == (60, 40)
