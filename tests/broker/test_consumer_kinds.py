"""Special consumers: with a priority, single active, exclusive (1.8.3.3; RabbitMQ's extensions)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.administration.processes import Processes
from tests.broker import Broker
from tests.outcomes import wait_depth
from tests.raw import Channel, Client
from tests.waiting import settled, wait_for

pytestmark = pytest.mark.broker

Connect = Callable[..., Client]
SINGLE = {"x-single-active-consumer": True}


def in_use(queue: str) -> tuple[int, str]:
    return 403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


def refusal(channel: Channel, **arguments: Any) -> tuple[int, str]:
    """Return the code and text with which a basic.consume closes the channel."""
    channel.send("basic.consume", **arguments)
    closed = channel.closed()
    assert (closed.event.class_id, closed.event.method_id) == (60, 20)
    return closed.code, closed.text


def ended(channel: Channel, **arguments: Any) -> tuple[int, str]:
    """Return the code and text with which a basic.consume closes the connection."""
    channel.send("basic.consume", **arguments)
    closed = channel.closed()
    assert closed.event.name == "connection.close"
    return closed.code, closed.text


def arrived(channel: Channel) -> list[tuple[str, bytes]]:
    events = channel.pending()
    return [(event.consumer_tag, event.body) for event in events if event.name == "basic.deliver"]


def publish(channel: Channel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.publish(body, queue)


# Priorities


def test_priorities_are_announced(connect: Connect) -> None:
    assert connect().server_properties["capabilities"]["consumer_priorities"] is True


def test_the_higher_priority_gets_what_it_can_take(connect: Connect, channel: Channel, queue: str) -> None:
    """The higher priority, on another connection, gets messages up to its prefetch; the lower one gets the rest."""
    channel.call("queue.declare", queue=queue)
    low, high = connect().channel(), connect().channel()
    low.call("basic.consume", queue=queue, consumer_tag="low", arguments={"x-priority": -1})
    high.call("basic.qos", prefetch_count=2)
    high.call("basic.consume", queue=queue, consumer_tag="high", arguments={"x-priority": 10})
    publish(channel, queue, b"0", b"1", b"2")
    got = [high.take("basic.deliver") for _ in range(2)]
    assert [event.body for event in got] == [b"0", b"1"]
    assert low.take("basic.deliver").body == b"2"
    high.send("basic.ack", delivery_tag=got[0].delivery_tag)
    assert high.get(queue) is None  # answered behind the ack
    publish(channel, queue, b"3")
    assert high.take("basic.deliver").body == b"3"
    high.call("basic.cancel", consumer_tag="high")
    publish(channel, queue, b"4")
    assert low.take("basic.deliver").body == b"4"


@pytest.mark.parametrize(("value", "kind"), [("high", "longstr"), (True, "bool"), (1.5, "double")])
def test_a_priority_that_is_no_integer(channel: Channel, queue: str, value: Any, kind: str) -> None:
    channel.call("queue.declare", queue=queue)
    text = f"invalid arg 'x-priority' for queue '{queue}' in vhost '/': \"expected integer, got {kind}\""
    assert refusal(channel, queue=queue, arguments={"x-priority": value}) == (406, f"PRECONDITION_FAILED - {text}")


# Single active consumer


def test_one_consumer_at_a_time(connect: Connect, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=SINGLE)
    consumers = {tag: connect().channel() for tag in ("a", "b", "c")}
    for tag, consumer in consumers.items():
        consumer.call("basic.consume", queue=queue, consumer_tag=tag)
    assert channel.call("queue.declare", queue=queue, passive=True).consumers == 3
    publish(channel, queue, *(b"%d" % number for number in range(50)))
    got = [consumers["a"].take("basic.deliver") for _ in range(50)]
    assert settled(lambda: sum(len(arrived(other)) for tag, other in consumers.items() if tag != "a")) == 0
    consumers["a"].send("basic.ack", delivery_tag=got[39].delivery_tag, multiple=True)
    consumers["a"].call("queue.declare", queue=queue, passive=True)  # behind the ack
    consumers["a"].client.kill()
    again = [consumers["b"].take("basic.deliver") for _ in range(10)]
    assert [event.body for event in again] == [b"%d" % number for number in range(40, 50)]
    assert all(event.redelivered for event in again)
    consumers["b"].call("basic.cancel", consumer_tag="b")
    publish(channel, queue, b"last")
    assert consumers["c"].take("basic.deliver").body == b"last"


def test_a_later_priority_does_not_displace_the_active_consumer(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=SINGLE)
    channel.call("basic.consume", queue=queue, consumer_tag="first", no_ack=True)
    channel.call("basic.consume", queue=queue, consumer_tag="low", no_ack=True)
    channel.call("basic.consume", queue=queue, consumer_tag="high", no_ack=True, arguments={"x-priority": 3})
    publish(channel, queue, b"0")
    assert channel.take("basic.deliver").consumer_tag == "first"
    channel.call("basic.cancel", consumer_tag="first")
    publish(channel, queue, b"1")
    assert channel.take("basic.deliver").consumer_tag == "high"


def test_no_exclusive_consumer_of_a_queue_with_a_single_active_one(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=SINGLE)
    assert refusal(channel, queue=queue, exclusive=True) == in_use(queue)


def test_get_beside_a_single_active_consumer(channel: Channel, queue: str) -> None:
    """As in RabbitMQ 3.10; 4.x refuses."""
    channel.call("queue.declare", queue=queue, arguments=SINGLE)
    publish(channel, queue, b"0")
    wait_depth(channel, queue, 1)
    got = channel.get(queue)
    assert got and got.body == b"0"


# Exclusive consumers


def test_no_exclusive_consumer_beside_others(connect: Connect, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    assert refusal(connect().channel(), queue=queue, exclusive=True) == in_use(queue)
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("basic.consume", queue=queue, exclusive=True)
    assert refusal(connect().channel(), queue=queue, nowait=True) == in_use(queue)


def test_a_queue_is_free_when_the_connection_of_its_exclusive_consumer_dies(
    connect: Connect, channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue)
    alone = connect().channel()
    alone.call("basic.consume", queue=queue, exclusive=True)
    alone.client.kill()
    wait_for(lambda: not channel.call("queue.declare", queue=queue, passive=True).consumers)
    channel.call("basic.consume", queue=queue, exclusive=True)


# Auto-delete


def test_a_queue_that_goes_with_its_last_consumer_is_gone_when_that_is_cancelled(channel: Channel) -> None:
    queue = channel.call("queue.declare", auto_delete=True).queue
    for tag in "a", "b":
        channel.call("basic.consume", queue=queue, consumer_tag=tag)
    for tag in "a", "b":
        channel.call("queue.declare", queue=queue, passive=True)
        channel.call("basic.cancel", consumer_tag=tag)
    channel.send("queue.declare", queue=queue, passive=True)
    assert channel.closed().code == 404


# Tags


def test_a_consumer_tag_is_used_once(connect: Connect, queue: str) -> None:
    """A tag in use is refused before anything else is checked, as in RabbitMQ: here the queue is missing too."""
    channel = connect().channel()
    channel.call("queue.declare", queue=queue)
    channel.call("basic.consume", queue=queue, consumer_tag="t")
    assert ended(channel, queue="none", consumer_tag="t") == (530, "NOT_ALLOWED - attempt to reuse consumer tag 't'")


def test_a_consumer_tag_is_free_again(connect: Connect, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    for _ in range(2):
        channel.call("basic.consume", queue=queue, consumer_tag="t")
        channel.call("basic.cancel", consumer_tag="t")
    channel.call("basic.consume", queue=queue, consumer_tag="t")
    other = channel.client.channel()
    other.call("basic.consume", queue=queue, consumer_tag="t")


def test_a_tag_made_by_the_broker(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    tags = {channel.call("basic.consume", queue=queue).consumer_tag for _ in range(3)}
    assert len(tags) == 3 and all(tag.startswith("amq.ctag-") for tag in tags)


def test_no_answer_where_none_is_wanted(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.send("basic.consume", queue=queue, nowait=True)
    publish(channel, queue, b"0")
    event = channel.next()
    assert event.name == "basic.deliver" and event.consumer_tag.startswith("amq.ctag-")
    channel.send("basic.cancel", consumer_tag=event.consumer_tag, nowait=True)
    channel.send("basic.cancel", consumer_tag="unknown", nowait=True)
    channel.send("queue.declare", queue=queue, passive=True)
    assert channel.next().name == "queue.declare-ok"


def test_consumers_of_a_missing_queue(channel: Channel) -> None:
    text = "NOT_FOUND - no queue 'none' in vhost '/'"
    assert refusal(channel, queue="none", nowait=True) == (404, text)


def test_a_broker_may_limit_the_consumers_of_a_channel(penstock_only: None, tmp_path: Path) -> None:
    with Broker(tmp_path, "amqp.consumers_per_channel=2") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        queue = channel.call("queue.declare", exclusive=True).queue
        for _ in range(2):
            channel.call("basic.consume", queue=queue)
        assert ended(channel, queue=queue) == (530, "NOT_ALLOWED - reached maximum (2) of consumers per channel")


def test_a_broker_may_limit_what_a_channel_has_in_hand(penstock_only: None, tmp_path: Path) -> None:
    """Consumers of a channel at its limit wait; those of another channel do not."""
    with Broker(tmp_path, "amqp.unacked_bytes=10000") as broker, Client.connect(broker.address) as client:
        one, other = client.channel(), client.channel()
        queue = one.call("queue.declare", exclusive=True).queue
        one.call("basic.consume", queue=queue)
        for size in [4000] * 6 + [50_000] * 2 + [1]:
            one.publish(bytes(size), routing_key=queue)
        held = [one.take("basic.deliver") for _ in range(3)]
        assert [len(event.body) for event in held] == [4000] * 3
        other.call("basic.consume", queue=queue)
        assert [len(other.take("basic.deliver").body) for _ in range(3)] == [4000] * 3
        assert other.depth(queue) == 3
        (gauge,) = broker.queues()
        reported = Processes(broker.directory / "data").ask("shard", 0, "consumers", id=gauge.queue_id)
        assert [consumer["full"] for consumer in reported] == ["channel", "channel"]
        one.send("basic.ack", delivery_tag=held[-1].delivery_tag, multiple=True)
        assert len(one.take("basic.deliver").body) == 50_000, "a message of any size passes"
        assert other.depth(queue) == 2
