"""A queue that is copied while it is open: it serves, and what happens to it meanwhile is true at its new home."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from router.model.records import PRECOPYING
from shard.moving.moving import ROUNDS
from shard.queue.copying import NEAR
from shard.queue.residence import OPEN
from tests.shard.moving.test_carrying import Thread, copies, filled, go_on, stays
from tests.shard.steps import drain, get, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

QUEUE = "q"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(1, 2, stores=True) as node:
        yield node


def is_open(node: Node) -> bool:
    """Whether the queue is copied, and nobody waits for it."""
    (move,) = node.router.topology.moves.values()
    gates = node.core(0).moves.away
    return move.phase == PRECOPYING and not gates and node.state(QUEUE).residence is OPEN


def take(client: Client, count: int) -> list[bytes]:
    """Return the bodies of so many messages, which are acked."""
    events = [get(client, QUEUE) for _ in range(count)]
    return [event.body for event in events if event]


def test_what_comes_and_goes_while_a_queue_is_copied(node: Node) -> None:
    """Messages that are acked after they were copied are gone, and later ones follow in order."""
    client, bodies = filled(node)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move(QUEUE, 1)
    node.settle()
    taken = []
    for number in range(3):
        assert threads[0].run_one()
        node.settle()
        assert is_open(node)
        taken += take(client, 3)
        publish(client, QUEUE, b"later %d" % number, delivery_mode=2)
    kept = get(client, QUEUE, no_ack=False)
    go_on(node, *threads)
    assert [result["result"] for result in results] == ["moved"]
    assert node.queue(QUEUE).shard == 1
    assert kept and kept.body == bodies[9] and taken == bodies[:9]
    assert drain(client, QUEUE) == [*bodies[10:], *(b"later %d" % number for number in range(3))]
    client.send("basic.nack", 1, delivery_tag=kept.delivery_tag, requeue=True)
    node.settle()
    again = get(client, QUEUE)
    assert again and (again.body, again.redelivered) == (bodies[9], True)


def test_a_queue_that_is_emptied_meanwhile_arrives_empty(node: Node) -> None:
    client, bodies = filled(node)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move(QUEUE, 1)
    node.settle()
    assert threads[0].run_one()
    node.settle()
    assert drain(client, QUEUE) == bodies
    go_on(node, *threads)
    assert [(result["result"], result["messages"]) for result in results] == [("moved", 0)]
    assert drain(client, QUEUE) == []
    node.kill_shard(1)
    node.start_shard(1)
    node.settle()
    assert drain(client, QUEUE) == []


@pytest.mark.parametrize("dead", [0, 1])
def test_if_a_home_dies_meanwhile_nobody_has_waited(node: Node, dead: int) -> None:
    client, bodies = filled(node)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move(QUEUE, 1)
    node.settle()
    assert threads[0].run_one()
    node.settle()
    assert is_open(node) and copies(node)
    node.kill_shard(dead)
    node.start_shard(dead)
    go_on(node, threads[1 - dead])
    assert results[0]["pause_ms"] is None
    stays(node, client, bodies, results, f"shard {dead} has died")


def test_a_queue_that_grows_faster_than_it_is_copied_is_stopped_after_some_rounds(node: Node) -> None:
    client, bodies = filled(node, 20)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move(QUEUE, 1)
    node.settle()
    id, rounds = node.queue(QUEUE).queue_id, 0
    while not results:
        leaving = node.shard(0).moving.leaving.get(id)
        if leaving is not None and leaving.rounds > rounds:
            rounds = leaving.rounds
            assert rounds <= ROUNDS
            more = [b"%d.%d" % (rounds, number) + bytes(NEAR // 4) for number in range(5)]
            publish(client, QUEUE, *more, delivery_mode=2)
            bodies += more
        assert any(list(map(Thread.run_one, threads)))
        node.settle()
    assert [result["result"] for result in results] == ["moved"]
    assert rounds == ROUNDS
    assert drain(client, QUEUE) == bodies


def test_what_is_only_in_the_store_is_copied(node: Node) -> None:
    client, bodies = filled(node)
    node.state(QUEUE).contents.page_out(1 << 62, 0)
    assert node.state(QUEUE).contents.paged
    results = node.move(QUEUE, 1)
    node.settle()
    assert [result["result"] for result in results] == ["moved"]
    assert drain(client, QUEUE) == bodies


def test_a_queue_whose_messages_are_replaced_is_copied_once_it_is_stopped(node: Node) -> None:
    node.declare(QUEUE, durable=True, **{"x-overflow": "last-value", "x-last-value-key": "k"})
    client = open_channel(node)
    publish(client, QUEUE, b"1", delivery_mode=2, headers={"k": "a"})
    threads = [Thread(node, index) for index in range(2)]
    results = node.move(QUEUE, 1)
    node.settle()
    assert is_open(node), "the new home has not answered"
    assert threads[1].run_one()
    node.settle()
    assert not is_open(node)
    assert not copies(node)
    go_on(node, *threads)
    assert [result["result"] for result in results] == ["moved"]
    assert drain(client, QUEUE) == [b"1"]
