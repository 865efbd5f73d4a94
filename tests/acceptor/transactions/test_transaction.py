"""Transactions among joined cores: nothing before the commit, all of it after; room, refusals, deaths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptor.transactions.steps import channel, depths, filled, get
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("a", 0)
        node.declare("b", 1)
        node.declare("full", 0, **FLOW)
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return channel(node)


def test_publishes_wait_for_the_commit(node: Node, client: Client) -> None:
    for number in range(3):
        client.publish(1, b"%d" % number, routing_key="ab"[number % 2])
    node.settle()
    assert depths(node, "a", "b") == [0, 0]
    client.call("tx.commit", 1)
    assert depths(node, "a", "b") == [2, 1]
    assert node.core(0).budgets.accounts.kept == 0
    assert [get(node, client, "a").body for _ in range(2)] == [b"0", b"2"]


def test_after_a_rollback_nothing_was_published_and_nothing_settled(node: Node, client: Client) -> None:
    other = channel(node, tx=False)
    for number in range(4):
        other.publish(1, b"%d" % number, routing_key="a")
    tags = [get(node, client, "a").delivery_tag for _ in range(3)]
    client.send("basic.ack", 1, delivery_tag=tags[1], multiple=True)
    client.send("basic.nack", 1, delivery_tag=tags[2], requeue=True)
    client.publish(1, b"x", routing_key="b")
    tags.append(get(node, client, "a").delivery_tag)
    client.call("tx.rollback", 1)
    assert depths(node, "a", "b") == [4, 0]
    assert client.connection.channels[1].unacked.total == 4
    assert not any(event.name == "basic.deliver" for event in client.events[1])
    client.send("basic.ack", 1, delivery_tag=tags[0])
    client.send("basic.ack", 1, delivery_tag=tags[3], multiple=True)
    client.call("tx.commit", 1)
    assert depths(node, "a", "b") == [0, 0]


def test_settlements_take_effect_with_the_commit(node: Node, client: Client) -> None:
    channel(node, tx=False).publish(1, b"x", routing_key="a")
    tag = get(node, client, "a").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    node.settle()
    assert depths(node, "a") == [1]
    client.call("tx.commit", 1)
    assert depths(node, "a") == [0]


def test_what_is_settled_in_a_transaction_is_settled(node: Node, client: Client) -> None:
    channel(node, tx=False).publish(1, b"x", routing_key="a")
    tag = get(node, client, "a").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    client.send("basic.ack", 1, delivery_tag=tag)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text, closed.method_id) == (
        406,
        f"PRECONDITION_FAILED - unknown delivery tag {tag}",
        80,
    )
    assert node.state("a").contents.ready == 1


def test_returns_come_before_commit_ok(node: Node, client: Client) -> None:
    client.publish(1, b"x", "amq.direct", "nowhere", mandatory=True)
    client.publish(1, b"y", routing_key="a")
    node.settle()
    assert not client.names(1)
    client.send("tx.commit", 1)
    node.settle()
    assert client.names(1) == ["basic.return", "tx.commit-ok"]


def test_commit_ok_waits_for_every_shard(node: Node, client: Client) -> None:
    for queue in "ab":
        client.publish(1, b"x", routing_key=queue)
    client.send("tx.commit", 1)
    client.read()
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)
    node.send_down(0, 0)
    node.finish(0)
    assert not client.names(1)
    node.settle()
    assert client.names(1) == ["tx.commit-ok"]


def test_a_commit_waits_for_room_and_its_client_is_told(node: Node, client: Client) -> None:
    other = filled(node)
    for queue in ("a", "full", "full"):
        client.publish(1, b"y", routing_key=queue)
    client.send("tx.commit", 1)
    client.publish(1, b"next", routing_key="a")
    node.settle(1)
    assert depths(node, "a", "full") == [0, 5]
    assert "queue 'full'" in client.take("connection.blocked").reason
    for _ in range(2):
        other.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    assert not client.names(1)
    other.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    client.take("tx.commit-ok", 1)
    client.take("connection.unblocked")
    assert depths(node, "a", "full") == [1, 4]
    client.call("tx.commit", 1)
    assert depths(node, "a") == [2]


@pytest.mark.parametrize("close", ["channel", "connection"])
def test_what_waits_behind_a_commit_is_not_published_when_its_channel_ends(
    node: Node, client: Client, close: str
) -> None:
    other = filled(node)
    client.publish(1, b"y", routing_key="full")
    client.send("tx.commit", 1)
    client.publish(1, b"next", routing_key="a")
    node.settle(1)
    if close == "channel":
        client.call("channel.close", 1)
    else:
        client.lose()
    node.settle(1)
    assert depths(node, "a", "full") == [0, 5]
    for _ in range(5):
        other.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    assert depths(node, "a", "full") == [0, 0]


def test_nobody_goes_before_a_commit_that_needs_more_room(node: Node, client: Client) -> None:
    filler, other = channel(node, tx=False), channel(node, tx=False)
    for _ in range(3):
        filler.publish(1, b"x", routing_key="full")
    node.settle()
    for _ in range(4):
        client.publish(1, b"y", routing_key="full")
    client.send("tx.commit", 1)
    node.settle(1)
    other.publish(1, b"late", routing_key="full")
    node.settle(2)
    assert depths(node, "full") == [3]
    for _ in range(2):
        filler.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    client.take("tx.commit-ok", 1)
    assert depths(node, "full")[0] >= 5


def test_what_is_larger_than_the_queue_goes_when_it_is_open(node: Node, client: Client) -> None:
    for _ in range(50):
        client.publish(1, b"y", routing_key="full")
    client.call("tx.commit", 1)
    assert depths(node, "full") == [50]


def test_what_is_larger_than_may_be_in_flight_goes_too() -> None:
    with Node(flow={"pair_count": 64, "pair_bytes": 65536}) as node:
        node.declare("a")
        client = channel(node)
        for _ in range(200):
            client.publish(1, bytes(1000), routing_key="a")
        client.call("tx.commit", 1)
        assert depths(node, "a") == [200]


def test_a_close_gives_up_a_commit_that_waits(node: Node, client: Client) -> None:
    other = filled(node)
    client.publish(1, b"y", routing_key="full")
    client.send("tx.commit", 1)
    client.call("channel.close", 1, code=200)
    assert node.core(0).budgets.accounts.kept == 0
    assert not node.core(0).holding.holds.held
    other.send("basic.get", 1, queue="full", no_ack=True)
    for _ in range(5):
        other.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    assert depths(node, "full") == [0]


def test_a_close_that_came_before_a_commit_waited_gives_it_up(node: Node, client: Client) -> None:
    filled(node)
    client.send("basic.get", 1, queue="a")
    client.publish(1, b"y", routing_key="full")
    client.send("tx.commit", 1)
    client.call("channel.close", 1, code=200)
    assert depths(node, "full") == [5]


def test_a_rejecting_queue_takes_all_or_nothing(node: Node, client: Client) -> None:
    node.declare("strict", 0, **{"x-max-length": 2, "x-overflow": "reject-publish"})
    for queue in ("a", "strict", "strict"):
        client.publish(1, b"1", routing_key=queue)
    client.call("tx.commit", 1)
    tag = get(node, client, "a").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    for queue in ("a", "strict"):
        client.publish(1, b"2", routing_key=queue)
    client.send("tx.commit", 1)
    node.settle()
    closed = client.take("channel.close", 1)
    reason = "PRECONDITION_FAILED - transaction rolled back: no room in queue 'strict' in vhost '/'"
    assert (closed.code, closed.text, closed.class_id, closed.method_id) == (406, reason, 90, 20)
    assert depths(node, "a", "strict") == [1, 2]


def test_a_queue_that_refused_may_be_gone_when_that_is_heard(node: Node, client: Client) -> None:
    node.declare("strict", 0, **{"x-max-length": 0, "x-overflow": "reject-publish"})
    node.settle()
    client.publish(1, b"1", routing_key="strict")
    client.send("tx.commit", 1)
    client.read()
    assert node.finish(0) and node.send_up(0, 0) and node.finish_shard(0)
    node.ask("queue_delete", queue_id=node.queue("strict").queue_id)
    node.settle()
    assert "transaction rolled back: no room in a queue that is gone" in client.take("channel.close", 1).text


STRICT = {"x-max-length": 2, "x-overflow": "reject-publish"}
NO_ROOM = "PRECONDITION_FAILED - transaction rolled back: no room in queue '{}' in vhost '/'"


def reserved(node: Node, *queues: str) -> list[int]:
    return [node.state(queue).pending.reserved for queue in queues]


@pytest.mark.parametrize("shard", [0, 1])
def test_what_one_shard_refuses_is_done_on_none(node: Node, client: Client, shard: int) -> None:
    node.declare("strict", shard, **STRICT)
    other = "ba"[shard]
    channel(node, tx=False).publish(1, b"old", routing_key=other)
    tag = get(node, client, other).delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    for queue in (other, "strict", "strict", "strict"):
        client.publish(1, b"1", routing_key=queue)
    client.send("tx.commit", 1)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text, closed.class_id, closed.method_id) == (406, NO_ROOM.format("strict"), 90, 20)
    assert depths(node, other, "strict") == [1, 0]
    assert node.state(other).contents.ready == 1
    assert reserved(node, "strict") == [0]


def test_several_shards_that_may_refuse(node: Node, client: Client) -> None:
    node.declare("first", 0, **STRICT)
    node.declare("second", 1, **STRICT)
    for depth in (1, 2):
        for queue in ("first", "second", "a"):
            client.publish(1, b"x", routing_key=queue)
        client.call("tx.commit", 1)
        assert depths(node, "first", "second", "a") == [depth] * 3
    client.send("basic.get", 1, queue="first", no_ack=True)
    for queue in ("first", "second"):
        client.publish(1, b"x", routing_key=queue)
    client.send("tx.commit", 1)
    node.settle()
    assert client.take("channel.close", 1).text == NO_ROOM.format("second")
    assert depths(node, "first", "second") == [1, 2]
    assert reserved(node, "first", "second") == [0, 0]


def ask_for_room(node: Node, client: Client) -> None:
    """Commit up to the point where both shards have kept room, and the last answer is in flight."""
    node.settle()
    for queue in ("first", "second"):
        client.publish(1, b"x", routing_key=queue)
    client.send("tx.commit", 1)
    client.read()
    for shard in (0, 1):
        node.finish(0)
        node.send_up(0, shard)
        node.finish_shard(shard)
        if shard == 0:
            node.send_down(0, 0)


def test_room_that_is_kept_is_nobody_elses(node: Node, client: Client) -> None:
    node.declare("first", 0, **{**STRICT, "x-max-length": 1})
    node.declare("second", 1, **STRICT)
    other = channel(node, tx=False)
    other.call("confirm.select", 1)
    ask_for_room(node, client)
    assert reserved(node, "first", "second") == [1, 1]
    other.publish(1, b"other", routing_key="first")
    other.read()
    node.finish(0)
    node.send_up(0, 0)
    node.settle()
    other.take("basic.nack", 1)
    client.take("tx.commit-ok", 1)
    assert depths(node, "first", "second") == [1, 1]
    assert reserved(node, "first", "second") == [0, 0]


@pytest.mark.parametrize("lost", ["connection", "acceptor"])
def test_room_that_is_kept_for_who_is_gone_is_free(node: Node, client: Client, lost: str) -> None:
    node.declare("first", 0, **STRICT)
    node.declare("second", 1, **STRICT)
    ask_for_room(node, client)
    assert reserved(node, "first", "second") == [1, 1]
    if lost == "connection":
        client.connection.lost()
    else:
        node.kill_acceptor(0)
        node.start_acceptor(0)
    node.settle()
    assert reserved(node, "first", "second") == [0, 0]
    assert depths(node, "first", "second") == [0, 0]


def test_a_shard_that_has_promised_room_and_died_keeps_its_word(node: Node, client: Client) -> None:
    node.declare("first", 0, **{**STRICT, "x-max-length": 1})
    node.declare("second", 1, **STRICT)
    other = channel(node, tx=False)
    ask_for_room(node, client)
    node.kill_shard(0)
    node.start_shard(0)
    other.publish(1, b"other", routing_key="first")
    node.settle()
    client.take("tx.commit-ok", 1)
    assert depths(node, "first", "second") == [2, 1]


def test_who_finds_the_way_closed_behind_kept_room_gives_it_back(node: Node, client: Client) -> None:
    node.declare("strict", 1, **STRICT)
    other = channel(node, tx=False)
    for queue in ("full", "strict"):
        client.publish(1, b"x", routing_key=queue)
    client.send("tx.commit", 1)
    client.read()
    node.finish(0)
    node.send_up(0, 1)
    node.finish_shard(1)
    for _ in range(5):
        other.publish(1, b"other", routing_key="full")
    other.read()
    node.settle(1)
    assert reserved(node, "strict") == [0]
    assert depths(node, "full", "strict") == [5, 0]
    for _ in range(3):
        other.send("basic.get", 1, queue="full", no_ack=True)
    node.settle(2)
    client.take("tx.commit-ok", 1)
    assert depths(node, "full", "strict") == [3, 1]


def test_a_strict_ring_makes_room_unless_somebody_has_its_oldest(node: Node, client: Client) -> None:
    node.declare("ring", 1, **{"x-max-length": 2, "x-overflow": "ring-strict"})
    for number in range(2):
        for queue in ("ring", "a", "ring"):
            client.publish(1, b"%d" % number, routing_key=queue)
        client.call("tx.commit", 1)
    assert depths(node, "ring", "a") == [2, 2]
    assert get(node, client, "ring").body == b"1"
    for queue in ("ring", "a"):
        client.publish(1, b"late", routing_key=queue)
    client.send("tx.commit", 1)
    node.settle()
    assert client.take("channel.close", 1).text == NO_ROOM.format("ring")
    assert depths(node, "ring", "a") == [2, 2]


@pytest.mark.parametrize("sent", [False, True])
def test_a_shard_that_dies_takes_it_in_its_next_incarnation(node: Node, client: Client, sent: bool) -> None:
    other = channel(node, tx=False)
    other.publish(1, b"old", routing_key="b")
    tag = get(node, client, "b").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    for queue in "abb":
        client.publish(1, b"x", routing_key=queue)
    client.send("tx.commit", 1)
    client.read()
    if sent:
        node.finish(0)
    node.kill_shard(1)
    node.settle()
    assert "tx.commit-ok" not in client.names(1)
    node.start_shard(1)
    node.settle()
    client.take("tx.commit-ok", 1)
    assert depths(node, "a", "b") == [1, 2]


def test_a_commit_of_settlements_ends_with_their_shard(node: Node, client: Client) -> None:
    channel(node, tx=False).publish(1, b"x", routing_key="b")
    tag = get(node, client, "b").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    client.send("tx.commit", 1)
    client.read()
    node.finish(0)
    node.kill_shard(1)
    node.start_shard(1)
    node.settle()
    client.take("tx.commit-ok", 1)


def test_what_is_kept_is_bounded() -> None:
    with Node(amqp={"transaction_bytes": 10_000}) as node:
        client = channel(node)
        for _ in range(2):
            client.publish(1, bytes(6000), routing_key="q")
        node.settle()
        closed = client.take("channel.close", 1)
        assert (closed.code, closed.method_id) == (406, 40)
        assert "more than 10000 bytes" in closed.text
        assert node.core(0).budgets.accounts.kept == 0


def test_settlements_behind_a_method_belong_to_the_transaction_that_they_came_in(node: Node, client: Client) -> None:
    channel(node, tx=False).publish(1, b"x", routing_key="a")
    tag = get(node, client, "a").delivery_tag
    client.publish(1, b"y", routing_key="b")
    client.send("tx.commit", 1)
    client.send("basic.ack", 1, delivery_tag=tag)
    client.send("tx.rollback", 1)
    node.settle()
    client.take("tx.commit-ok", 1)
    client.take("tx.rollback-ok", 1)
    assert depths(node, "a", "b") == [1, 1]


def test_a_user_has_a_share_for_its_transactions_and_takes_nothing_of_what_others_may_have() -> None:
    with Node(memory={"process_limit": 10_000_000, "user_percent": 1}) as node:
        share = node.core(0).budgets.accounts.of_user
        clients = [channel(node) for _ in range(3)]
        clients[2].connection.user = "other"
        for client in clients:
            client.publish(1, bytes(share // 2), routing_key="q")
            node.settle()
        closed = clients[1].take("channel.close", 1)
        assert (closed.code, closed.method_id) == (406, 40)
        assert "memory.user_percent" in closed.text
        assert set(node.core(0).budgets.accounts.users) == {"guest", "other"}
        for client in (clients[0], clients[2]):
            client.call("tx.commit", 1)
        clients[0].publish(1, bytes(share // 2), routing_key="q")
        clients[0].call("tx.rollback", 1)
        clients[0].publish(1, bytes(share // 2), routing_key="q")
        node.settle()
        clients[0].lose()
        assert not node.core(0).budgets.accounts.users and not clients[0].connection.kept.uncommitted
