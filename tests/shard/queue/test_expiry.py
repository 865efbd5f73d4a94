"""Messages and queues that expire: x-message-ttl, the property expiration, x-expires."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.contents.queue_cy import NEVER
from shard.queue.expiry import Alarms
from tests.shard.steps import drain, get, pass_ms, publish, recount
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_messages_expire_with_the_ttl_of_their_queue(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 100})
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    pass_ms(node, 60)
    publish(client, "q", b"3")
    pass_ms(node, 60)
    assert node.state("q").contents.ready == 1
    recount(node, "q")
    assert drain(client, "q") == [b"3"]


def test_the_shard_says_when_it_wants_to_look(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 100})
    client = open_channel(node)
    assert node.shard(0).next_wake() == NEVER
    publish(client, "q", b"1")
    assert node.shard(0).next_wake() == node.microseconds() + 100_000
    pass_ms(node, 100)
    assert node.state("q").depth == 0
    assert node.shard(0).next_wake() == NEVER


def test_the_smaller_of_the_two_counts(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 100})
    client = open_channel(node)
    for expiration in ("50", "200"):
        publish(client, "q", expiration.encode(), expiration=expiration)
    pass_ms(node, 60)
    assert node.state("q").contents.ready == 1
    pass_ms(node, 50)
    assert node.state("q").contents.ready == 0
    recount(node, "q")


def test_an_expired_message_behind_a_live_one_lingers_but_is_not_delivered(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    for body, options in ((b"1", {}), (b"2", {"expiration": "10"}), (b"3", {}), (b"4", {"expiration": "5000"})):
        client.publish(1, body, routing_key="q", **options)
    node.settle()
    pass_ms(node, 20)
    assert node.state("q").contents.ready == 4
    assert drain(client, "q") == [b"1", b"3", b"4"]
    assert node.state("q").contents.totals.dropped == 1
    recount(node, "q")


def test_a_consumer_gets_what_lives_past_what_does_not(node: Node) -> None:
    node.declare("q")
    client, consumer = open_channel(node), open_channel(node)
    for number in range(6):
        client.publish(1, b"%d" % number, routing_key="q", **({"expiration": "10"} if number % 2 else {}))
    node.settle()
    pass_ms(node, 20)
    consumer.call("basic.consume", 1, queue="q", no_ack=True)
    node.settle()
    assert [event.body for event in consumer.events[1] if event.name == "basic.deliver"] == [b"0", b"2", b"4"]
    assert node.state("q").depth == 0


@pytest.mark.parametrize("options", [{}, {"expiration": "0"}], ids=["queue", "message"])
def test_ttl_0_expires_unless_deliverable_at_once(node: Node, options: dict[str, str]) -> None:
    node.declare("q", **({} if options else {"x-message-ttl": 0}))
    client, consumer = open_channel(node), open_channel(node)
    publish(client, "q", b"nobody there", **options)
    assert node.state("q").depth == 0
    consumer.call("basic.qos", 1, prefetch_count=2)
    consumer.call("basic.consume", 1, queue="q")
    publish(client, "q", b"1", b"2", b"3", **options)
    assert [event.body for event in consumer.events[1] if event.name == "basic.deliver"] == [b"1", b"2"]
    assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (0, 2)
    recount(node, "q")


def test_a_requeued_message_keeps_its_expiry(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 100})
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    pass_ms(node, 60)
    publish(client, "q", b"3")
    assert get(client, "q", no_ack=False)
    pass_ms(node, 60)
    assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (1, 1)
    client.send("basic.nack", 1, delivery_tag=1, requeue=True)
    node.settle()
    assert drain(client, "q") == [b"3"]
    recount(node, "q")


def test_purge_takes_what_lingers(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    publish(client, "q", b"1")
    publish(client, "q", b"2", expiration="1")
    pass_ms(node, 10)
    assert client.call("queue.purge", 1, queue="q").messages == 2
    assert node.state("q").depth == 0


def exists(node: Node, name: str) -> bool:
    return node.router.topology.queue("/", name) is not None


def test_a_queue_that_nobody_uses_goes(node: Node) -> None:
    node.declare("q", **{"x-expires": 100})
    client = open_channel(node)
    pass_ms(node, 60)
    publish(client, "q", b"publishing is no use")
    pass_ms(node, 60)
    assert not exists(node, "q")
    assert not node.shard(0).state.queues


@pytest.mark.parametrize("use", ["get", "declare", "passive declare"])
def test_use_of_a_queue(node: Node, use: str) -> None:
    node.declare("q", **{"x-expires": 100})
    client = open_channel(node)
    for _ in range(3):
        pass_ms(node, 60)
        if use == "get":
            assert get(client, "q") is None
        else:
            client.call("queue.declare", 1, queue="q", passive=use != "declare", arguments={"x-expires": 100})
    assert exists(node, "q")
    pass_ms(node, 120)
    assert not exists(node, "q")


def test_consumers_keep_a_queue(node: Node) -> None:
    node.declare("q", **{"x-expires": 100})
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    pass_ms(node, 500)
    assert exists(node, "q")
    client.call("basic.cancel", 1, consumer_tag="c")
    pass_ms(node, 60)
    assert exists(node, "q")
    pass_ms(node, 60)
    assert not exists(node, "q")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50))), st.lists(st.integers(0, 60)))
def test_alarms(asked: list[tuple[int, int]], times: list[int]) -> None:
    alarms = Alarms()
    wanted: dict[int, int] = {}
    for queue, when in asked:
        alarms.set(queue, when)
        wanted[queue] = min(when, wanted.get(queue, when))
    for now in sorted(times):
        assert alarms.next() <= min(wanted.values(), default=NEVER)
        assert sorted(alarms.due(now)) == sorted(queue for queue, when in wanted.items() if when <= now)
        wanted = {queue: when for queue, when in wanted.items() if when > now}


@pytest.mark.parametrize("overflow", ["reject-publish", "ring-strict"])
def test_what_has_expired_goes_before_anything_is_refused(node: Node, overflow: str) -> None:
    """The messages expire in the same turn as the publishes that would otherwise be refused."""
    node.declare("q", **{"x-message-ttl": 100, "x-max-length": 2, "x-overflow": overflow})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", b"1", b"2")
    node.now += 0.2
    publish(client, "q", b"3", b"4")
    assert "basic.nack" not in client.names(1)
    assert node.state("q").contents.totals.dropped == 2
    assert drain(client, "q") == [b"3", b"4"]


def test_what_has_expired_goes_before_a_limit_drops(node: Node) -> None:
    """Expired messages are dead-lettered as expired, not as dropped."""
    node.declare("dead")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    node.declare("q", **{"x-message-ttl": 100, "x-max-length": 2, **dead_letters})
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    node.now += 0.2
    publish(client, "q", b"3", b"4")
    for _ in range(2):
        letter = get(client, "dead")
        assert letter and letter.properties["headers"]["x-first-death-reason"] == "expired"
    assert node.state("q").depth == 2


def test_what_expires_lets_held_producers_go(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 100, "qpid.flow_stop_count": 10})
    client = open_channel(node)
    publish(client, "q", *[b"x"] * 50)
    held = node.state("q").depth
    assert held < 50 and client.connection.channels[1].held_by is not None
    for _ in range(10):
        pass_ms(node, 110)
    assert client.connection.channels[1].held_by is None
    assert node.state("q").contents.totals.published == 50
    assert node.state("q").depth == 0
