"""Transactions over sockets: everything takes effect at the commit, nothing before (specification: class Tx)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Names
from tests.outcomes import bodies, wait_depth
from tests.raw import Channel, Client

pytestmark = pytest.mark.broker

REJECT = {"x-overflow": "reject-publish"}


def test_publishes_and_acks_take_effect_at_the_commit(channel: Channel, names: Names) -> None:
    """A transaction over many queues, so that several shards take part."""
    queues = [names("q") for _ in range(8)]
    for queue in queues:
        channel.call("queue.declare", queue=queue, exclusive=True)
        channel.publish(b"first", queue)
    channel.call("tx.select")
    for queue in queues:
        wait_depth(channel, queue, 1)
        event = channel.get(queue, no_ack=False)
        assert event is not None and event.body == b"first"
        channel.send("basic.ack", delivery_tag=event.delivery_tag)
        channel.publish(b"second", queue)
    assert [channel.depth(queue) for queue in queues] == [0] * 8
    channel.call("tx.commit")
    assert [channel.depth(queue) for queue in queues] == [1] * 8
    channel.call("tx.rollback")
    assert {body for queue in queues for body in bodies(channel, queue)} == {b"second"}


def test_rollback(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, exclusive=True)
    channel.call("tx.select")
    channel.publish(b"kept", queue)
    channel.call("tx.commit")
    event = channel.get(queue, no_ack=False)
    assert event is not None
    channel.send("basic.ack", delivery_tag=event.delivery_tag)
    channel.publish(b"dropped", queue)
    channel.call("tx.rollback")
    channel.call("tx.commit")
    assert channel.depth(queue) == 0
    channel.call("basic.recover", requeue=True)
    wait_depth(channel, queue, 1)
    assert bodies(channel, queue) == [b"kept"]


def test_a_returned_message_comes_before_commit_ok(channel: Channel) -> None:
    channel.call("tx.select")
    channel.publish(b"x", "nowhere", "amq.direct", mandatory=True)
    channel.send("tx.commit")
    assert [channel.next().name, channel.next().name] == ["basic.return", "tx.commit-ok"]


def test_a_commit_that_a_queue_refuses(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    writer = connect().channel()
    writer.call("tx.select")
    for _ in range(3):
        writer.publish(b"x", queue)
    writer.send("tx.commit")
    refused = writer.closed()
    assert (refused.code, refused.event.class_id, refused.event.method_id) == (406, 90, 20)
    assert refused.text == f"PRECONDITION_FAILED - transaction rolled back: no room in queue '{queue}' in vhost '/'"
    assert channel.depth(queue) == 0
    channel.call("queue.delete", queue=queue)


def test_a_commit_over_many_queues_that_one_of_them_refuses(
    connect: Callable[..., Client], channel: Channel, names: Names
) -> None:
    """A refused commit over several shards has no effect on any of them."""
    strict, *others = [names("q") for _ in range(8)]
    channel.call("queue.declare", queue=strict, exclusive=False, arguments={"x-max-length": 1, **REJECT})
    for queue in others:
        channel.call("queue.declare", queue=queue)
    writer = connect().channel()
    writer.call("tx.select")
    for queue in (*others, strict):
        writer.publish(b"x", queue)
    writer.call("tx.commit")
    for queue in (*others, strict):
        writer.publish(b"x", queue)
    writer.send("tx.commit")
    refused = writer.closed()
    assert refused.text == f"PRECONDITION_FAILED - transaction rolled back: no room in queue '{strict}' in vhost '/'"
    assert [channel.depth(queue) for queue in (strict, *others)] == [1] * 8
    for queue in (strict, *others):
        channel.call("queue.delete", queue=queue)


def test_a_commit_waits_for_a_full_queue(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    marks = {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}
    channel.call("queue.declare", queue=queue, arguments=marks)
    channel.call("confirm.select")
    for _ in range(11):
        channel.publish(b"x", queue)
    wait_depth(channel, queue, 11)
    client = connect()
    writer = client.channel()
    writer.call("tx.select")
    writer.publish(b"y", queue)
    writer.send("tx.commit")
    assert f"queue '{queue}'" in client.take("connection.blocked").reason
    assert channel.depth(queue) == 11
    channel.call("queue.purge", queue=queue)
    writer.take("tx.commit-ok")
    assert channel.depth(queue) == 1
    channel.call("queue.delete", queue=queue)
