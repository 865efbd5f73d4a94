"""Declaring, binding, purging and deleting queues (specification: class Queue)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import Names
from tests.outcomes import Confirms, bodies, wait_depth
from tests.raw import Channel, Client, Closed
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_declare_and_passive_declare(channel: Channel, queue: str) -> None:
    declared = channel.call("queue.declare", queue=queue)
    assert (declared.queue, declared.messages, declared.consumers) == (queue, 0, 0)
    channel.publish(b"1", queue)
    channel.publish(b"2", queue)
    channel.call("basic.consume", queue=queue)
    channel.take("basic.deliver")
    channel.take("basic.deliver")
    channel.publish(b"3", queue)
    channel.take("basic.deliver")
    found = channel.call("queue.declare", queue=queue, passive=True)
    assert (found.queue, found.messages, found.consumers) == (queue, 0, 1)


def test_message_count_is_of_ready_messages(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    for body in (b"1", b"2", b"3"):
        channel.publish(body, queue)
    wait_depth(channel, queue, 3)
    got = channel.get(queue, no_ack=False)
    assert got and got.messages == 2
    wait_depth(channel, queue, 2)


def test_redeclare_with_the_same_arguments(channel: Channel, queue: str) -> None:
    arguments = {"x-max-length": 10, "x-overflow": "reject-publish", "of-no-meaning": "1"}
    channel.call("queue.declare", queue=queue, durable=True, arguments=arguments)
    channel.publish(b"x", queue)
    wait_depth(channel, queue, 1)
    again = channel.call("queue.declare", queue=queue, durable=True, arguments=arguments | {"of-no-meaning": "2"})
    assert again.messages == 1


def test_server_named_queue(channel: Channel) -> None:
    name = channel.call("queue.declare", exclusive=True).queue
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name)
    channel.publish(b"x", name)
    wait_depth(channel, name, 1)
    assert name != channel.call("queue.declare", exclusive=True).queue


def test_empty_name_means_the_queue_declared_last(channel: Channel) -> None:
    name = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", exchange="amq.direct", routing_key=f"key-{name}")
    channel.publish(b"bound", f"key-{name}", "amq.direct")
    got = channel.get("")
    assert got and got.body == b"bound"
    channel.call("basic.consume", no_ack=True)
    channel.publish(b"consumed", name)
    assert channel.take("basic.deliver").body == b"consumed"
    channel.call("queue.purge")
    channel.call("queue.delete")


def test_bind_with_empty_queue_and_key_binds_under_its_name(channel: Channel) -> None:
    name = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", exchange="amq.direct")
    channel.publish(b"x", name, "amq.direct")
    assert bodies(channel, name) == [b"x"]


def test_a_passive_declare_takes_an_empty_name_as_it_is(channel: Channel) -> None:
    """As in RabbitMQ: everywhere else an empty name means the queue last declared."""
    channel.call("queue.declare", exclusive=True)
    channel.send("queue.declare", queue="", passive=True)
    assert channel.closed().text == "NOT_FOUND - no queue '' in vhost '/'"


def test_exclusive_queue_belongs_to_its_connection(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    owner = connect()
    owners = owner.channel()
    owners.call("queue.declare", queue=queue, exclusive=True)
    owner.channel().call("queue.declare", queue=queue, exclusive=True)
    for method, arguments in (
        ("queue.declare", {"passive": True}),
        ("queue.declare", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("queue.bind", {"exchange": "amq.direct"}),
    ):
        intruder = channel.client.channel()
        intruder.send(method, queue=queue, **arguments)
        refused = intruder.closed()
        assert refused.code == 405, method
        assert refused.text.startswith(
            f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'."
        )
    channel.publish(b"publishing is open to all", queue)
    wait_depth(owners, queue, 1)


@pytest.mark.parametrize("politely", [True, False])
def test_exclusive_queue_goes_with_its_connection(
    connect: Callable[[], Client], channel: Channel, queue: str, politely: bool
) -> None:
    owner = connect()
    owner.channel().call("queue.declare", queue=queue, exclusive=True)
    if politely:
        owner.close()
    else:
        owner.kill()
    assert gone(channel.client, queue)


def gone(client: Client, queue: str) -> bool:
    """Wait until the queue no longer exists; return True."""

    def not_found() -> bool:
        channel = client.channel()
        channel.send("queue.declare", queue=queue, passive=True)
        try:
            channel.take("queue.declare-ok")
        except Closed:
            return channel.closed().code == 404
        return False

    return wait_for(not_found)


def test_auto_delete_goes_with_its_last_consumer(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, auto_delete=True)
    for tag in ("one", "two"):
        channel.call("basic.consume", queue=queue, consumer_tag=tag)
    channel.call("basic.cancel", consumer_tag="one")
    assert channel.call("queue.declare", queue=queue, passive=True).consumers == 1
    channel.call("basic.cancel", consumer_tag="two")
    assert gone(channel.client, queue)


def test_auto_delete_without_any_consumer_stays(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    declarer = connect()
    declarer.channel().call("queue.declare", queue=queue, auto_delete=True)
    declarer.close()
    assert channel.call("queue.declare", queue=queue, passive=True).queue == queue


def test_auto_delete_goes_with_its_last_consumers_connection(
    connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    consumer = connect()
    consumers = consumer.channel()
    consumers.call("queue.declare", queue=queue, auto_delete=True)
    consumers.call("basic.consume", queue=queue)
    consumer.kill()
    assert gone(channel.client, queue)


def test_purge_counts_ready_messages(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    for body in (b"1", b"2", b"3"):
        channel.publish(body, queue)
    channel.get(queue, no_ack=False)
    wait_depth(channel, queue, 2)
    assert channel.call("queue.purge", queue=queue).messages == 2
    assert channel.depth(queue) == 0
    channel.call("basic.recover", requeue=True)
    assert bodies(channel, queue) == [b"1"]


def test_delete_counts_messages_and_removes_bindings(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.publish(b"x", queue, "amq.direct")
    wait_depth(channel, queue, 1)
    assert channel.call("queue.delete", queue=queue).messages == 1
    channel.publish(b"y", queue, "amq.direct", mandatory=True)
    assert channel.take("basic.return").body == b"y"
    assert channel.call("queue.declare", queue=queue).messages == 0


def test_delete_and_unbind_of_what_is_not_there(channel: Channel, queue: str) -> None:
    assert channel.call("queue.delete", queue=queue).messages == 0
    channel.call("queue.declare", queue=queue)
    channel.call("queue.unbind", queue=queue, exchange="amq.direct", routing_key="never bound")


def test_delete_if_unused_and_if_empty(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.publish(b"x", queue)
    wait_depth(channel, queue, 1)
    other = channel.client.channel()
    other.send("queue.delete", queue=queue, if_empty=True)
    refused = other.closed()
    assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty")
    channel.call("queue.purge", queue=queue)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    other = channel.client.channel()
    other.send("queue.delete", queue=queue, if_unused=True)
    refused = other.closed()
    assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use")
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("queue.delete", queue=queue, if_unused=True, if_empty=True)


def test_unbind(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    key = {"queue": queue, "exchange": "amq.direct", "routing_key": queue}
    channel.call("queue.bind", **key)
    channel.call("queue.bind", **key)
    channel.publish(b"1", queue, "amq.direct")
    channel.call("queue.unbind", **key)
    channel.publish(b"2", queue, "amq.direct")
    assert bodies(channel, queue) == [b"1"]


def test_nowait(channel: Channel, queue: str, names: Names) -> None:
    """Methods with nowait get no answer, but take effect in order."""
    exchange = names("x")
    channel.send("queue.declare", queue=queue, nowait=True)
    channel.send("exchange.declare", exchange=exchange, type="fanout", nowait=True)
    channel.send("queue.bind", queue=queue, exchange=exchange, nowait=True)
    channel.publish(b"x", "", exchange)
    channel.send("basic.consume", queue=queue, consumer_tag="c", no_ack=True, nowait=True)
    assert channel.next().body == b"x"
    channel.send("basic.cancel", consumer_tag="c", nowait=True)
    channel.send("queue.purge", queue=queue, nowait=True)
    channel.send("exchange.delete", exchange=exchange, nowait=True)
    channel.send("queue.delete", queue=queue, nowait=True)
    channel.send("queue.declare", queue=queue, passive=True)
    assert channel.closed().code == 404


def test_what_is_declared_can_be_used_at_once_from_everywhere(
    connect: Callable[[], Client], channel: Channel, names: Names
) -> None:
    """Read-your-writes holds over all connections, whichever process serves them."""
    others = [connect().channel() for _ in range(6)]
    for number in range(20):
        queue, exchange = names("q"), names("x")
        channel.call("queue.declare", queue=queue)
        channel.call("exchange.declare", exchange=exchange, type="direct")
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="k")
        other = others[number % len(others)]
        other.publish(b"x", "k", exchange, mandatory=True)
        other.publish(b"y", queue, mandatory=True)
        wait_depth(other, queue, 2)
        assert not other.pending()


def test_names_of_any_bytes(channel: Channel, names: Names) -> None:
    """Names are UTF-8 of at most 255 bytes."""
    queue = (names("Schütz-水門-") + "x" * 255).encode()[:255].decode(errors="ignore")
    assert channel.call("queue.declare", queue=queue, exclusive=True).queue == queue
    channel.publish("größer".encode(), queue)
    got = channel.get(queue)
    assert got and got.routing_key == queue


@pytest.mark.parametrize("overflow", [{}, {"x-overflow": "drop-head"}])
def test_max_length_without_flow_drops_the_head(channel: Channel, queue: str, overflow: dict[str, str]) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 2, **overflow})
    confirms = Confirms(channel)
    for number in range(5):
        confirms.publish(b"%d" % number, queue)
    confirms.wait()
    assert not confirms.nacked
    assert bodies(channel, queue) == [b"3", b"4"]


def test_max_length_bytes_drops_the_head(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length-bytes": 100})
    for number in range(5):
        channel.publish(b"%d" % number * 40, queue)
    assert [body[:1] for body in bodies(channel, queue)] == [b"3", b"4"]


def test_reject_publish_nacks_what_is_too_much(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.call("confirm.select")
    outcomes = []
    for number in range(4):
        channel.publish(b"%d" % number, queue)
        outcomes.append(channel.take("basic.ack", "basic.nack").name)
    assert outcomes == ["basic.ack", "basic.ack", "basic.nack", "basic.nack"]
    assert bodies(channel, queue) == [b"0", b"1"]
    channel.publish(b"again", queue)
    assert channel.take("basic.ack", "basic.nack").name == "basic.ack"


@pytest.mark.usefixtures("penstock_only")
def test_reject_returns_what_is_mandatory_and_too_much(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 1, "x-overflow": "reject"})
    channel.call("confirm.select")
    channel.publish(b"0", queue, mandatory=True)
    assert channel.take("basic.ack").delivery_tag == 1
    channel.publish(b"1", queue, mandatory=True)
    returned = channel.next()
    assert (returned.name, returned.code, returned.body) == ("basic.return", 311, b"1")
    assert returned.properties["headers"] == {"x-flow-queue": queue, "x-flow-count": 1, "x-flow-max-count": 1}
    assert channel.next().name == "basic.nack"
    assert bodies(channel, queue) == [b"0"]
