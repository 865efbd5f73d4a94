"""Paced queues: the depth stays at the target, and producers are let in as messages leave, and notified of waits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock.limits.watermarks import overshoot_of
from tests.outcomes import jain
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, fill_beside


def opened(node: Node, acceptor: int = 0) -> Client:
    client = node.connect(acceptor, properties=JAVA)
    client.call("channel.open", 1)
    return client


def publish(client: Client, count: int) -> None:
    for _ in range(count):
        client.publish(1, b"x", routing_key="q")
    client.node.settle()


def get(node: Node, reader: Client, count: int) -> None:
    for _ in range(count):
        reader.send("basic.get", 1, queue="q", no_ack=True)
    node.settle(rechecks=1)


@pytest.mark.parametrize("acceptors", [1, 3])
def test_a_depth(acceptors: int) -> None:
    with Node(acceptors=acceptors) as node:
        node.declare("q", **{"x-pace-depth": 100})
        clients = [opened(node, index) for index in range(acceptors)]
        reader = opened(node)
        for client in clients:
            publish(client, 1000)
        node.settle(rechecks=3)
        state = node.state("q")
        assert 100 <= state.depth < 100 + acceptors
        depths = []
        for _ in range(20):
            get(node, reader, 30)
            node.settle(rechecks=5)
            depths.append(state.depth)
        assert min(depths) >= 95 and max(depths) < 100 + acceptors
        gate = clients[0].connection.channels[1].held_by
        assert str(gate).endswith("messages, paced to 100")
        assert clients[0].take("channel.flow", 1).active is False


def test_what_another_acceptor_has_under_way_is_bounded() -> None:
    """The other acceptor's turn is in flight while this one fills the queue."""
    with Node(acceptors=2) as node:
        queue = node.declare("q", **{"x-pace-depth": 1000})
        late, client = opened(node, 1), opened(node)
        for sender in (late, client):
            for _ in range(2000):
                sender.publish(1, b"x", routing_key="q")
        fill_beside(node, queue, late, client)
        assert 1000 <= node.state("q").depth <= 1000 + overshoot_of(1000)


def test_a_stop_mark_holds_all_the_same() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 1000, "x-flow-stop-count": 100})
        client = opened(node)
        publish(client, 300)
        assert node.state("q").depth <= 106
        assert "of 100 messages" in str(client.connection.channels[1].held_by)


def test_a_waiting_time() -> None:
    """Ten messages leave at once, repeatedly: as many wait as leave in two seconds."""
    with Node() as node:
        node.declare("q", **{"x-pace-wait": "2 s"})
        client, reader = opened(node), opened(node)
        publish(client, 3000)
        began = node.now
        for _ in range(100):
            get(node, reader, 10)
        rate = 1000 / (node.now - began)
        assert node.state("q").depth == pytest.approx(2 * rate, rel=0.2)


@pytest.mark.parametrize("after", [{}, {"pace-depth": 500}], ids=str)
def test_who_waits_goes_on_when_the_pace_is_another_or_none(after: dict[str, Any]) -> None:
    with Node() as node:
        node.declare("q")
        node.policy("p", "", {"pace-depth": 10})
        client = opened(node)
        publish(client, 300)
        assert node.state("q").depth == 10
        node.policy("p", "", after or None)
        node.settle(rechecks=1)
        assert node.state("q").depth == 300 and client.connection.channels[1].held_by is None


def test_a_transaction_waits_its_turn() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 10})
        client, other, reader = opened(node), opened(node), opened(node)
        publish(other, 10)
        client.call("tx.select", 1)
        publish(client, 30)
        client.send("tx.commit", 1)
        node.settle()
        assert node.state("q").depth == 10
        get(node, reader, 5)
        assert node.state("q").depth == 35 and client.take("tx.commit-ok", 1)


def test_who_is_held_by_the_pace_is_an_event() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 10})
        client = opened(node)
        publish(client, 30)
        node.settle(rechecks=10)
        (event,) = node.core(0).events.records
        assert (event["event"], event["queue"], event["cause"], event["of"]) == ("limited", "q", "pace", "queue")
        assert event["count"] == 10 and "paced to 10" in event["reason"]
        get(node, opened(node), 30)
        node.settle(rechecks=10)
        assert [each["event"] for each in node.core(0).events.records] == ["limited", "unlimited"]


def flood(node: Node, acceptor: int, who: int, count: int) -> Client:
    """Return a client that has published `count` messages, each naming its producer."""
    client = opened(node, acceptor)
    for _ in range(count):
        client.publish(1, bytes([who]), routing_key="q")
    return client


def taken(node: Node, reader: Client, rounds: int, every: int) -> Counter[int]:
    """Empty the queue, then read `every` messages in each round; return their number by producer. No time passes."""
    before = node.state("q").contents.ready
    for _ in range(before):
        reader.send("basic.get", 1, queue="q", no_ack=True)
    node.settle()
    reader.events[1].clear()
    for _ in range(rounds):
        for _ in range(every):
            reader.send("basic.get", 1, queue="q", no_ack=True)
        node.settle()
    return Counter(event.body[0] for event in reader.events[1] if event.name == "basic.get-ok")


@pytest.mark.parametrize("every", [1, 7, 50])
def test_acceptors_share_it_by_those_who_wait_though_only_one_hears_of_the_queue(every: int) -> None:
    """The reader's acceptor gets a turn from the shard with each get; the other acceptor has nothing to ask it."""
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-pace-depth": 200})
        for who in range(8):
            flood(node, int(who < 6), who, 2000)
        node.settle(rechecks=3)
        found = taken(node, opened(node, 0), 1400 // every, every)
        assert len(found) == 8 and jain(found.values()) >= 0.95
        first = sum(found[who] for who in range(6))
        assert first == pytest.approx(6 * (found[6] + found[7]) / 2, rel=0.05)
        assert 200 - every <= node.state("q").depth <= 201


def test_room_that_an_acceptor_cannot_use_is_for_the_other() -> None:
    """The channel of one acceptor publishes to a full queue as well."""
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-pace-depth": 100})
        node.declare("full", **{"x-flow-stop-count": 10, "x-essential": True})
        node.bind("both", "q", "full")
        stuck = opened(node, 0)
        for _ in range(300):
            stuck.publish(1, b"\0", exchange="both")
        flood(node, 1, 1, 1000)
        node.settle(rechecks=3)
        reader = opened(node, 0)
        found = taken(node, reader, 30, 10)
        assert found[1] >= 250
        node.settle(rechecks=3)
        assert node.state("q").depth >= 95


def test_a_new_incarnation_of_the_shard_grants_anew() -> None:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-pace-depth": 50})
        clients = [flood(node, acceptor, acceptor, 500) for acceptor in (0, 1)]
        node.settle(rechecks=1)
        node.kill_shard(0)
        node.settle(rechecks=1)
        node.start_shard(0)
        node.settle(rechecks=4)
        assert 50 <= node.state("q").depth <= 51
        node.kill_acceptor(0)
        node.settle(rechecks=2)
        found = taken(node, opened(node, 1), 40, 5)
        assert found[1] >= 150
        assert clients[1].connection.channels[1].gates


@pytest.mark.parametrize("depths", [(1, 1), (2, 6), (6, 2)])
def test_those_who_need_the_room_of_two_paced_queues_do_not_get_one_and_then_the_other(depths: tuple[int, int]) -> None:
    with Node(acceptors=2) as node:
        for name, depth in zip("ab", depths, strict=True):
            node.declare(name, **{"x-pace-depth": depth})
        node.bind("both", "a", "b")
        clients = [opened(node, acceptor) for acceptor in (0, 1)]
        for name in "ab":
            for client in clients:
                for _ in range(12):
                    client.publish(1, b"x", routing_key=name)
                node.settle()
        for client in clients:
            for _ in range(20):
                client.publish(1, b"x", exchange="both")
        node.settle()
        reader = opened(node)
        for name in "ab":
            reader.send("basic.consume", 1, queue=name, no_ack=True)
        node.settle(rechecks=100)
        assert not any(client.connection.channels[1].inbox for client in clients)
        assert reader.names(1).count("basic.deliver") == 2 * (2 * 12 + 2 * 20)


def persistent(node: Node, acceptor: int, count: int) -> Client:
    client = opened(node, acceptor)
    for _ in range(count):
        client.publish(1, b"x", routing_key="q", delivery_mode=2)
    return client


def let_in(node: Node, acceptor: int) -> int:
    """Return how many messages from an acceptor to the queue are in flight, or not safe there."""
    (queue_gate,) = node.core(acceptor).gates.queue_gates.values()
    return queue_gate.in_flight


def start_without(node: Node, late: int) -> None:
    """Restart shard 0 and send it the unacked messages of all acceptors; nothing more from `late` for now."""
    node.start_shard(0)
    turns = 0
    while turns < 2:  # its hello, and its unacked messages
        node.step(slow=late)
        turns += node.send_up(late, 0)


@pytest.mark.parametrize("late", [0, 1])
def test_what_one_acceptor_sends_again_is_not_given_to_another(late: int) -> None:
    """The shard dies before the messages are safe; the other acceptor asks its next incarnation first."""
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}, stores=True) as node:
        node.declare("q", durable=True, **{"x-pace-depth": 50})
        node.commits = False
        persistent(node, late, 500)
        node.settle(rechecks=1)
        assert let_in(node, late) == node.state("q").depth == 50
        persistent(node, 1 - late, 500)
        node.settle(rechecks=1)
        assert let_in(node, 1 - late) == 0
        node.kill_shard(0)
        start_without(node, late)
        for _ in range(50):
            node.step(slow=late)
        assert node.shard(0).state.recovery is None
        node.settle(rechecks=2)
        assert node.state("q").depth <= 51


def test_what_is_given_once_is_not_given_again_when_another_shard_dies() -> None:
    """The room is in flight to an acceptor that learns of the other shard's death."""
    with Node(acceptors=2, shards=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-pace-depth": 50})
        reader = opened(node, 1)
        flood(node, 0, 0, 500)
        node.settle(rechecks=1)
        assert node.state("q").depth == 50
        reader.send("queue.purge", 1, queue="q")
        reader.read()
        node.finish(1)
        node.send_up(1, 0)
        node.finish_shard(0)
        assert node.state("q").depth == 0 and node.down[0, 0]  # there is room again
        node.kill_shard(1)
        node.meet(0)
        node.meter(0)
        node.settle(rechecks=2)
        assert node.state("q").depth <= 51
