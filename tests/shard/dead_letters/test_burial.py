"""Burial of dead letters: to this and other shards, in order, in bounded turns, waiting for room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.frames import Event
from tests.shard.steps import dlx, drain, get, pass_ms, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_no_exchange_no_dead_letter(node: Node) -> None:
    node.declare("q", **dlx("missing", x_max_length=0))
    client = open_channel(node)
    publish(client, "q", b"1")
    assert not node.shard(0).burial.lanes
    assert node.shard(0).state.weight == 0


def test_headers_exchange(node: Node) -> None:
    node.declare("dead")
    node.ask("queue_bind", queue="dead", source="amq.headers", arguments={"x-match": "all", "a": 1})
    node.declare("q", **dlx("amq.headers", x_max_length=0))
    client = open_channel(node)
    for number in range(3):
        publish(client, "q", b"%d" % number, headers={"a": number % 2})
    assert drain(client, "dead") == [b"1"]


def test_a_full_queue_that_refuses_loses_dead_letters(node: Node) -> None:
    node.declare("dead", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    node.declare("q", **dlx(x_max_length=0))
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    assert drain(client, "dead") == [b"1"]


def held(client: Client) -> bool:
    return client.connection.channels[1].held_by is not None


def test_dead_letters_wait_for_room_in_a_full_queue(node: Node) -> None:
    """Nothing is lost, the order is kept, and waiting dead letters hold the producers of the queue they died in."""
    node.declare("dead", **{"qpid.flow_stop_count": 3})
    node.declare("q", **dlx(x_max_length=20, x_message_ttl=100, x_overflow="flow"))
    client, taker = open_channel(node), open_channel(node)
    bodies = [b"%d" % number for number in range(60)]
    publish(client, "q", *bodies)
    for _ in range(10):
        pass_ms(node, 110)
        assert node.state("dead").depth == 4
        assert node.state("q").depth <= 17
    assert held(client)
    taken = []
    while len(taken) < len(bodies):
        taken += drain(taker, "dead")
        pass_ms(node, 110)
        assert node.state("dead").depth <= 4
    assert taken == bodies
    assert not held(client)
    assert (node.shard(0).burial.weight, node.shard(0).burial.room.under_way) == (0, {})
    recount(node, "q")
    recount(node, "dead")


def test_rejected_messages_wait_for_room_too(node: Node) -> None:
    node.declare("dead", **{"qpid.flow_stop_count": 3})
    node.declare("q", **dlx(qpid_flow_stop_count=20))
    client = open_channel(node)
    publish(client, "q", *[b"%d" % number for number in range(15)])
    for number in range(15):
        assert get(client, "q", no_ack=False)
        client.send("basic.reject", 1, delivery_tag=number + 1, requeue=False)
    node.settle()
    assert (node.state("dead").depth, node.state("q").depth) == (4, 11)
    assert node.state("q").contents.unacked == node.state("q").contents.ready == 0
    found = [body for _ in range(10) for body in drain(client, "dead")]
    assert found == [b"%d" % number for number in range(15)]
    recount(node, "q")


def test_letters_for_a_full_queue_are_in_nobody_elses_way(node: Node) -> None:
    node.declare("full", **{"qpid.flow_stop_count": 1})
    node.declare("free")
    node.declare("a", **dlx(key="full", x_max_length=0))
    node.declare("b", **dlx(key="free", x_max_length=0))
    client = open_channel(node)
    for _ in range(5):
        publish(client, "a", b"x")
        publish(client, "b", b"y")
    assert drain(client, "free") == [b"y"] * 5
    assert node.state("full").depth == 2


@pytest.mark.parametrize("how", ["deleted", "policy"])
def test_letters_do_not_wait_for_what_is_no_more(node: Node, how: str) -> None:
    node.declare("full", **{"qpid.flow_stop_count": 1})
    node.declare("q", **dlx(key="full", x_max_length=0))
    client = open_channel(node)
    publish(client, "q", *[b"x"] * 5)
    assert node.state("q").depth == 3
    if how == "deleted":
        client.call("queue.delete", 1, queue="full")
    else:
        node.policy("ring", "^full$", {"overflow": "spill"})
        node.settle()
        assert node.state("full").depth == 5
    node.settle()
    assert node.state("q").depth == 0 and not node.shard(0).burial.lanes


def test_a_backlog_that_expires_stays_where_it_is(node: Node) -> None:
    """Expired messages stay in the queue instead of filling the memory for dead letters."""
    node.declare("dead", **{"qpid.flow_stop_count": 3})
    node.declare("q", **dlx(x_message_ttl=100))
    client = open_channel(node)
    publish(client, "q", *[bytes(10_000)] * 100)
    publish(client, "q", *[bytes(10_000)] * 100)
    pass_ms(node, 50)
    publish(client, "q", *[bytes(10_000)] * 100)
    pass_ms(node, 60)
    assert node.state("q").unburied.count == 196
    pass_ms(node, 200)
    assert (node.state("q").unburied.count, node.state("q").contents.ready) == (196, 100)
    assert node.shard(0).next_wake() > node.microseconds()
    left = 300
    while left:
        left -= len(drain(client, "dead"))
        pass_ms(node, 110)
    recount(node, "q")


def test_thousands_in_bounded_turns(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx(x_message_ttl=1000))
    client = open_channel(node)
    bodies = [b"%d" % number for number in range(2000)]
    publish(client, "q", *bodies)
    before = node.shard(0).state.weight
    node.now += 2
    node.shard(0).finish_turn(node.microseconds())
    assert 0 < node.state("dead").depth < 1000
    assert node.shard(0).next_wake() == node.microseconds()
    assert node.shard(0).state.weight >= before
    node.settle()
    assert [got.body for got in _consumed(node, "dead")] == bodies
    assert node.shard(0).burial.weight == 0


def _consumed(node: Node, queue: str) -> list[Event]:
    client = open_channel(node)
    client.call("basic.consume", 1, queue=queue, no_ack=True)
    node.settle()
    return [event for event in client.events[1] if event.name == "basic.deliver"]


# From shard to shard


def test_to_a_queue_of_another_shard() -> None:
    with Node(shards=2) as node:
        node.declare("here", shard=0)
        node.declare("there", shard=1)
        node.bind("x", "here", "there")
        node.declare("q", shard=0, **dlx("x", x_max_length=0))
        client = open_channel(node)
        publish(client, "q", b"1", b"2")
        assert drain(client, "here") == drain(client, "there") == [b"1", b"2"]
        assert node.shard(0).peers.held == 0
        assert node.shard(0).state.weight == 0


def test_what_a_shard_had_not_taken_in_goes_to_its_next_incarnation() -> None:
    with Node(shards=2) as node:
        node.declare("there", shard=1)
        node.declare("q", shard=0, **dlx(key="there", x_max_length=0))
        client = open_channel(node)
        publish(client, "q", b"0")
        node.kill_shard(1)
        publish(client, "q", b"1", b"2")
        assert node.shard(0).peers.held > 0
        assert node.shard(0).state.weight > 0
        node.start_shard(1)
        publish(client, "q", b"3")
        assert drain(client, "there") == [b"1", b"2", b"3"]
        assert node.shard(0).peers.held == 0


def test_a_shard_that_takes_nothing_bounds_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shard.turns.peers.HELD_MAX", 1000)
    with Node(shards=2) as node:
        node.declare("there", shard=1)
        node.declare("q", shard=0, **dlx(key="there", x_max_length=0))
        client = open_channel(node)
        node.kill_shard(1)
        for number in range(10):
            publish(client, "q", b"%d" % number + bytes(1000))
        assert node.shard(0).peers.held < 3000
        assert sum(lane.count for lane in node.shard(0).burial.lanes.values()) == 9
        assert node.shard(0).next_wake() > node.microseconds()
        node.start_shard(1)
        node.settle()
        assert [body[:1] for body in drain(client, "there")] == [b"%d" % number for number in range(10)]


def test_the_dead_stay_in_the_store_until_their_letters_are_safe_on_the_other_shard() -> None:
    with Node(shards=2, stores=True) as node:
        node.declare("there", shard=1, durable=True)
        node.declare("q", shard=0, durable=True, **dlx(key="there", x_message_ttl=10))
        client = open_channel(node)
        publish(client, "q", b"1", b"2", delivery_mode=2)
        node.kill_shard(1)
        pass_ms(node, 20)
        assert node.state("q").unburied.burying == 1
        node.kill_shard(0)
        node.start_shard(0)
        node.start_shard(1)
        pass_ms(node, 20)
        assert drain(client, "there") == [b"1", b"2"]
        assert node.state("q").unburied.burying == 0
        journal = node.shard(0).state.journal
        assert journal is not None and journal.nbytes == 0


def test_a_letter_for_several_queues_waits_until_all_of_them_have_room(node: Node) -> None:
    """Otherwise the dead letter would reach some of them twice."""
    node.declare("full", **{"qpid.flow_stop_count": 1})
    node.declare("free")
    node.bind("x", "full", "free")
    node.declare("q", **dlx("x", None, x_max_length=0))
    client = open_channel(node)
    bodies = [b"%d" % number for number in range(5)]
    publish(client, "q", *bodies)
    assert (node.state("full").depth, node.state("free").depth, node.state("q").depth) == (2, 2, 3)
    taken = []
    for _ in range(3):
        taken += drain(client, "full")
        pass_ms(node, 110)
    assert taken == drain(client, "free") == bodies
