"""Requests of consumers to a shard, and the fate of consumers when queues and shards go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2) as node:
        yield node


def delivered(client: Client, channel: int = 1) -> list[bytes]:
    """Return the bodies delivered since the last call."""
    found = []
    while "basic.deliver" in client.names(channel):
        found.append(client.take("basic.deliver", channel).body)
    return found


def quicker(node: Node) -> None:
    """Let the second acceptor finish with the new incarnation of a shard before the first knows of it."""
    while node.meet(1) or node.finish(1) or node.send_up(1, 0) or node.finish_shard(0) or node.send_down(0, 1):
        pass
    node.finish(1)


def test_an_exclusive_consumer_outlives_its_shard(node: Node) -> None:
    """A consumer that reaches the next incarnation sooner has to wait, and is then refused."""
    node.declare("q")
    alone, quick = open_channel(node, 0), open_channel(node, 1)
    alone.call("basic.consume", 1, queue="q", consumer_tag="alone", exclusive=True)
    node.kill_shard(0)
    node.start_shard(0)
    quick.send("basic.consume", 1, queue="q", consumer_tag="quick")
    quick.read()
    quicker(node)
    assert not quick.names(1)
    node.settle()
    assert quick.take("channel.close", 1).code == 403
    alone.publish(1, b"mine", routing_key="q")
    node.settle()
    assert delivered(alone) == [b"mine"] and "basic.cancel" not in alone.names(1)


def test_who_is_not_waited_for_any_more_displaces_newcomers_all_the_same(node: Node) -> None:
    node.declare("q")
    alone, quick = open_channel(node, 0), open_channel(node, 1)
    alone.call("basic.consume", 1, queue="q", consumer_tag="alone", exclusive=True)
    node.kill_shard(0)
    node.start_shard(0)
    quick.send("basic.consume", 1, queue="q", consumer_tag="quick")
    quick.read()
    quicker(node)
    node.now += 5
    quicker(node)
    assert quick.take("basic.consume-ok", 1)
    node.settle()
    assert quick.take("basic.cancel", 1).consumer_tag == "quick"
    alone.publish(1, b"mine", routing_key="q")
    node.settle()
    assert delivered(alone) == [b"mine"] and "basic.cancel" not in alone.names(1)
    quick.send("basic.consume", 1, queue="q")
    node.settle()
    assert quick.take("channel.close", 1).code == 403


def test_a_newcomer_cannot_be_exclusive_beside_those_who_come_back(node: Node) -> None:
    node.declare("q")
    others, quick = open_channel(node, 0), open_channel(node, 1)
    for tag in "a", "b":
        others.call("basic.consume", 1, queue="q", consumer_tag=tag)
    node.kill_shard(0)
    node.start_shard(0)
    quick.send("basic.consume", 1, queue="q", consumer_tag="quick", exclusive=True)
    quick.read()
    quicker(node)
    node.settle()
    assert quick.take("channel.close", 1).code == 403
    assert len(node.state("q").ring) == 2 and "basic.cancel" not in others.names(1)


def test_an_acceptor_that_dies_is_not_waited_for(node: Node) -> None:
    node.declare("q")
    node.kill_shard(0)
    node.start_shard(0)
    node.kill_acceptor(0)
    quick = open_channel(node, 1)
    quick.call("basic.consume", 1, queue="q")
    assert node.shard(0).state.recovery is None


def test_the_active_consumer_stays_so_when_its_shard_dies(node: Node) -> None:
    """The active consumer is neither the first to return nor the oldest."""
    node.declare("q", **{"x-single-active-consumer": True})
    first, second = open_channel(node, 0), open_channel(node, 1)
    second.call("basic.consume", 1, queue="q", consumer_tag="1", no_ack=True)
    second.call("basic.consume", 1, queue="q", consumer_tag="2", no_ack=True)
    first.call("basic.consume", 1, queue="q", consumer_tag="3", no_ack=True)
    first.call("basic.consume", 1, queue="q", consumer_tag="4", no_ack=True, arguments={"x-priority": 1})
    second.call("basic.consume", 1, queue="q", consumer_tag="5", no_ack=True)
    second.call("basic.cancel", 1, consumer_tag="1")
    for _ in range(2):
        node.kill_shard(0)
        node.start_shard(0)
        second.read()
        quicker(node)
        node.settle()
    served = []
    for tag in "4", "2", "3", "5":
        first.publish(1, b"", routing_key="q")
        node.settle()
        client = first if tag in "34" else second
        served.append(client.take("basic.deliver", 1).consumer_tag)
        client.call("basic.cancel", 1, consumer_tag=tag)
    assert served == ["4", "2", "3", "5"]


def test_a_single_active_consumer_follows_when_its_acceptor_dies(node: Node) -> None:
    node.declare("q", **{"x-single-active-consumer": True})
    first, second = open_channel(node, 0), open_channel(node, 1)
    for client in first, second:
        client.call("basic.consume", 1, queue="q")
    for number in range(3):
        second.publish(1, b"%d" % number, routing_key="q")
    node.settle()
    assert (delivered(first), delivered(second)) == ([b"0", b"1", b"2"], [])
    node.kill_acceptor(0)
    node.settle()
    assert delivered(second) == [b"0", b"1", b"2"]


def test_there_is_one_active_consumer_after_a_shard_restarted(node: Node) -> None:
    node.declare("q", **{"x-single-active-consumer": True})
    client = open_channel(node)
    for tag in "a", "b":
        client.call("basic.consume", 1, queue="q", consumer_tag=tag)
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    for _ in range(4):
        client.publish(1, b"", routing_key="q")
    node.settle()
    assert {client.take("basic.deliver", 1).consumer_tag for _ in range(4)} == {"a"}


def test_who_waits_for_a_shared_limit_is_served_when_the_other_queue_goes(node: Node) -> None:
    """Unacked messages of the deleted queue's consumers no longer count."""
    node.declare("goes")
    node.declare("stays")
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=1, global_=True)
    for queue in "goes", "stays":
        client.call("basic.consume", 1, queue=queue)
        client.publish(1, queue.encode(), routing_key=queue)
        node.settle()
    assert delivered(client) == [b"goes"]
    node.ask("queue_delete", queue_id=node.queue("goes").queue_id)
    node.settle()
    assert delivered(client) == [b"stays"]


@pytest.mark.parametrize("shards", [(0, 0, 0), (0, 1, 0)])
def test_queues_whose_consumers_share_a_limit_take_turns(node: Node, shards: tuple[int, ...]) -> None:
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=1, global_=True)
    for number, shard in enumerate(shards):
        name = f"q{number}"
        node.declare(name, shard)
        for _ in range(10):
            client.publish(1, name.encode(), routing_key=name)
        client.call("basic.consume", 1, queue=name)
    node.settle()
    order = []
    for tag in range(1, 10):
        (body,) = delivered(client)
        order.append(body)
        client.send("basic.ack", 1, delivery_tag=tag)
        node.settle()
    assert all(4 >= order.count(body) >= 2 for body in (b"q0", b"q1", b"q2")), order


@pytest.mark.parametrize("shards", [(0, 0), (0, 1)])
def test_who_acks_nothing_waits_for_a_shared_limit_but_uses_none_of_it(node: Node, shards: tuple[int, int]) -> None:
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=1, global_=True)
    for name, shard in zip(("acks", "free"), shards, strict=True):
        node.declare(name, shard)
        client.call("basic.consume", 1, queue=name, no_ack=name == "free")
    client.publish(1, b"1", routing_key="acks")
    node.settle()
    assert delivered(client) == [b"1"]
    for body in b"2", b"3":
        client.publish(1, body, routing_key="free")
    node.settle()
    assert delivered(client) == []
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert delivered(client) == [b"2", b"3"]
    client.publish(1, b"4", routing_key="acks")
    node.settle()
    assert delivered(client) == [b"4"]


def test_what_was_published_before_a_cancel_is_the_consumers(node: Node) -> None:
    """All requests are in one turn: consumers with priorities come and go between publishes."""
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="low", no_ack=True, arguments={"x-priority": -1})
    client.publish(1, b"to low", routing_key="q")
    client.send("basic.consume", 1, queue="q", consumer_tag="high", no_ack=True)
    client.publish(1, b"to high", routing_key="q")
    client.send("basic.cancel", 1, consumer_tag="high")
    client.publish(1, b"to low", routing_key="q")
    client.send("basic.cancel", 1, consumer_tag="low")
    client.publish(1, b"to nobody", routing_key="q")
    node.settle()
    came = [client.take("basic.deliver", 1) for _ in range(3)]
    assert [(event.consumer_tag, event.body) for event in came] == [
        ("low", b"to low"), ("high", b"to high"), ("low", b"to low"),
    ]  # fmt: skip
    assert "basic.deliver" not in client.names(1)


def test_consumers_that_were_stopped_stay_so_when_their_shard_restarts(node: Node) -> None:
    """The client stops its consumers with channel.flow."""
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    client.call("channel.flow", 1, active=False)
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    client.publish(1, b"held", routing_key="q")
    node.settle()
    assert delivered(client) == []
    client.call("channel.flow", 1, active=True)
    node.settle()
    assert delivered(client) == [b"held"]


def test_priorities_are_kept_when_a_shard_restarts(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    for tag, priority in ("low", 0), ("high", 5):
        client.call("basic.consume", 1, queue="q", consumer_tag=tag, arguments={"x-priority": priority})
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    client.publish(1, b"", routing_key="q")
    node.settle()
    assert client.take("basic.deliver", 1).consumer_tag == "high"
