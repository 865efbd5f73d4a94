"""Notices to held producers: channel.flow to clients that honour it, connection.blocked to those that asked for it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.broker import Broker
from tests.broker.flow import MARKS, RESUME, STOP, settled_depth
from tests.broker.ways import each_way
from tests.outcomes import wait_get
from tests.producers import Drain, Producers
from tests.raw import CAPABILITIES, JAVA, Address, Channel, Client
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

OTHERS = [
    {"product": "Pika Python Client Library"},
    {"product": "aiormq"},
    {"product": "py-amqp"},
    {"product": "amqplib"},
    {"product": "bunny", "platform": "ruby"},
    {"product": "RabbitMQ", "platform": "Erlang"},
    {},
]


def fill(publisher: Channel, queue: str, count: int) -> None:
    for number in range(count):
        publisher.publish(b"%d" % number, queue)


def drained(channel: Channel, queue: str, count: int) -> None:
    """Get `count` messages, waiting for those still held."""
    for number in range(count):
        assert wait_get(channel, queue).body == b"%d" % number


@each_way
@pytest.mark.parametrize("properties", [JAVA, {"product": "RabbitMQ", "platform": ".NET Core"}])
def test_channel_flow_for_those_who_honour_it(
    connect: Callable[..., Client], channel: Channel, queue: str, properties: dict[str, str]
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect(properties=properties).channel()
    fill(publisher, queue, 2 * STOP)
    stop = publisher.take("channel.flow")
    assert stop.active is False
    publisher.send("channel.flow-ok", active=False)
    drained(channel, queue, 2 * STOP)
    go = publisher.take("channel.flow")
    assert go.active is True
    publisher.send("channel.flow-ok", active=True)
    publisher.publish(b"and on", queue)
    assert wait_get(channel, queue).body == b"and on"
    assert "channel.flow" not in [event.name for event in publisher.pending()]


@each_way
def test_who_published_before_is_told_early(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """An earlier publisher gets channel.flow before it publishes to the full queue; one that consumes on its
    connection does not.
    """
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    earlier, settles = connect(properties=JAVA).channel(), connect(properties=JAVA).channel()
    settles.call("basic.consume", queue=settles.call("queue.declare", exclusive=True).queue)
    for publisher in (earlier, settles):
        publisher.call("confirm.select")
        fill(publisher, queue, 5)
        publisher.take("basic.ack")
    fill(channel, queue, STOP)
    assert earlier.take("channel.flow").active is False
    settles.call("basic.qos", prefetch_count=1)
    assert "channel.flow" not in [event.name for event in settles.pending()]
    connect().channel().call("queue.purge", queue=queue)
    assert earlier.take("channel.flow").active is True


def test_channel_flow_is_for_the_channel_that_is_held(
    connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(properties=JAVA)
    held, free = client.channel(), client.channel()
    fill(held, queue, 2 * STOP)
    held.take("channel.flow")
    free.call("queue.declare", exclusive=True)
    assert not free.pending()


def test_flow_ok_is_not_waited_for(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """A client that never answers and publishes on is held, but loses nothing."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect(properties=JAVA).channel()
    fill(publisher, queue, 2 * STOP)
    publisher.take("channel.flow")
    for number in range(2 * STOP, 3 * STOP):
        publisher.publish(b"%d" % number, queue)
    drained(channel, queue, 3 * STOP)
    assert publisher.call("queue.declare", exclusive=True).queue


@each_way
def test_a_client_that_publishes_on_after_its_flow_ok_is_told_no_more(
    broker: Broker, connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """For the rest of its connection it is paused at once instead, which operators see; another connection still gets
    channel.flow.
    """
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(properties=JAVA)
    publisher = client.channel()
    fill(publisher, queue, 2 * STOP)
    assert publisher.take("channel.flow").active is False
    publisher.send("channel.flow-ok", active=False)
    for number in range(2 * STOP, 3 * STOP):
        publisher.publish(b"%d" % number, queue)
    (held,) = wait_for(lambda: [each for each in broker.held() if each["ignores_flow"]])
    assert held["client"].startswith("RabbitMQ")
    drained(channel, queue, 3 * STOP)
    assert publisher.take("channel.flow").active is True
    publisher.send("channel.flow-ok", active=True)
    client.take("connection.unblocked")
    for number in range(2 * STOP):
        publisher.publish(b"%d" % number, queue)
    wait_for(lambda: any(each["ignores_flow"] and each["paused"] for each in broker.held()))
    another = connect(properties=JAVA).channel()
    another.publish(b"another", queue)
    assert another.take("channel.flow").active is False
    for _ in range(2 * STOP + 1):
        wait_get(channel, queue)
    client.take("connection.unblocked")
    assert "channel.flow" not in client.arrived()
    lines = [json.loads(line) for line in broker.log.splitlines() if '"flow ignored"' in line]
    assert [line.get("connection") for line in lines].count(held["connection"]) == 1


def test_channel_flow_instead_of_flow_ok_is_taken_for_it(
    connect: Callable[..., Client], channel: Channel, queue: str
) -> None:
    """php-amqplib answers with channel.flow, which must not stop its deliveries."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect(properties=JAVA).channel()
    own = publisher.call("queue.declare", exclusive=True).queue
    publisher.call("basic.consume", queue=own, no_ack=True)
    fill(publisher, queue, 2 * STOP)
    publisher.take("channel.flow")
    publisher.send("channel.flow", active=False)
    channel.publish(b"still delivered", own)
    assert publisher.take("basic.deliver").body == b"still delivered"


@pytest.mark.parametrize("properties", OTHERS, ids=lambda properties: "-".join(properties.values()) or "unknown")
def test_no_channel_flow_for_the_others(
    connect: Callable[..., Client], channel: Channel, queue: str, properties: dict[str, str]
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    publisher = connect(properties=properties).channel()
    fill(publisher, queue, 2 * STOP)
    assert settled_depth(channel, queue, quiet=0.3) < 2 * STOP
    assert not publisher.pending()
    drained(channel, queue, 2 * STOP)
    assert not publisher.pending()


def test_honouring_producers_stop_by_themselves(address: Address, channel: Channel, queue: str) -> None:
    """No producer writes so much that its socket is paused before it reads channel.flow."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with Producers(address, [queue] * 5, count=300, batch=5, honour=True, properties=JAVA) as producers:
        wait_for(lambda: producers.flow_stops, what="a stop")
        Drain(channel.client, queue, prefetch=20).take(1500)
        wait_for(lambda: producers.done and not any(producer.held for producer in producers.producers))


@each_way
def test_connection_blocked(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """The reason names the queue, its depth and its marks; unblocked follows when the last reason is gone."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect()
    publisher = client.channel()
    fill(publisher, queue, 2 * STOP)
    reason = client.take("connection.blocked").reason
    assert queue in reason
    assert str(STOP) in reason
    assert str(RESUME) in reason
    drained(channel, queue, 2 * STOP)
    client.take("connection.unblocked")


def test_connection_blocked_once_for_several_queues(
    connect: Callable[..., Client], channel: Channel, names: Callable[[str], str]
) -> None:
    queues = [names("a"), names("b")]
    client = connect()
    publishers = [client.channel() for _ in queues]
    for queue, publisher in zip(queues, publishers, strict=True):
        channel.call("queue.declare", queue=queue, arguments=MARKS)
        fill(publisher, queue, 2 * STOP)
    client.take("connection.blocked")
    for queue in queues:
        wait_for(lambda queue=queue: channel.depth(queue) > STOP, what="a full queue")
        assert settled_depth(channel, queue) < 2 * STOP
    drained(channel, queues[0], 2 * STOP)
    publishers[0].call("queue.declare", exclusive=True)
    assert "connection.unblocked" not in [event.name for event in client.pending()]
    drained(channel, queues[1], 2 * STOP)
    client.take("connection.unblocked")


def test_connection_blocked_only_where_declared(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(capabilities=CAPABILITIES | {"connection.blocked": False})
    fill(client.channel(), queue, 2 * STOP)
    assert settled_depth(channel, queue, quiet=0.3) < 2 * STOP
    assert not client.pending()


def test_deleted_queue_unblocks(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    client = connect(properties=JAVA)
    publisher = client.channel()
    fill(publisher, queue, 2 * STOP)
    client.take("connection.blocked")
    publisher.take("channel.flow")
    channel.call("queue.delete", queue=queue)
    client.take("connection.unblocked")
    assert publisher.take("channel.flow").active is True


def test_clients_channel_flow_pauses_deliveries(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """A client's channel.flow pauses its deliveries (specification: channel.flow); basic.get is exempt."""
    channel.call("queue.declare", queue=queue)
    consumer = connect().channel()
    consumer.call("basic.consume", queue=queue, no_ack=True)
    assert consumer.call("channel.flow", active=False).active is False
    fill(channel, queue, 3)
    assert settled(lambda: len(consumer.pending())) == 0
    got = wait_get(consumer, queue)
    assert got.body == b"0"
    assert consumer.call("channel.flow", active=True).active is True
    assert [consumer.take("basic.deliver").body for _ in range(2)] == [b"1", b"2"]


def test_operators_are_told(broker: Broker, channel: Channel, queue: str) -> None:
    """The log has one line when a channel is stopped and one when it resumes, with the facts about both."""
    channel.call("queue.declare", queue=queue, arguments=MARKS)

    def reported() -> dict[str, dict[str, object]]:
        """Hold one more channel; return its lines. Lines are missing if the log had too many in a second, as other
        tests log too.
        """
        with Client.connect(broker.address, properties=JAVA) as client:
            fill(client.channel(), queue, 2 * STOP)
            drained(channel, queue, 2 * STOP)
            client.take("connection.unblocked")
        lines = [json.loads(line) for line in broker.log.splitlines() if queue in line]
        by_event = {line["event"]: line for line in lines}
        return by_event if by_event.keys() >= {"stop", "resume"} else {}

    lines = wait_for(reported, what="lines about a stop and a resume")
    assert {"connection", "channel", "client", "peer"} <= lines["stop"].keys()
    assert all(text in str(lines["stop"]["reason"]) for text in (queue, str(STOP), str(RESUME)))
    assert isinstance(lines["resume"]["held_seconds"], int | float)
