"""Room for dead letters: the marks of their queues and the dead letters in flight, on this and other shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from router.model.records import Queue
from shard.dead_letters.dead_letter_capacity import DeadLetterCapacity
from tests.shard.steps import dlx, drain, get, pass_ms, publish
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node


def room_for(node: Node, name: str, **arguments: object) -> tuple[DeadLetterCapacity, Queue]:
    """Declare a queue on shard 0; return the room for dead letters there, and the queue."""
    node.declare(name, **arguments)
    node.settle()
    return node.shard(0).burial.room, node.queue(name)


def test_letters_in_flight_take_room_up_to_the_stop_mark_and_its_overshoot(node: Node) -> None:
    room, dead = room_for(node, "dead", **{"x-flow-stop-count": 100, "x-flow-resume-count": 50})
    publish(open_channel(node), "dead", *[b"x"] * 90)
    free = 100 + node.state("dead").limits.marks.overshoot_count - 90
    for _ in range(free):
        assert room.is_for(dead, 80)
        room.sent(dead, 80)
    assert not room.is_for(dead, 80)
    room.arrived((dead.queue_id,), 1, 80)
    assert room.is_for(dead, 80)
    room.arrived((dead.queue_id,), free - 1, 80 * (free - 1))
    assert room.under_way == {}


def test_an_empty_queue_has_room_for_a_letter_of_any_size(node: Node) -> None:
    room, dead = room_for(node, "dead", **{"x-flow-stop-size": 1000, "x-flow-resume-size": 0})
    most = 1000 + node.state("dead").limits.marks.overshoot_bytes
    assert room.is_for(dead, 100 * most)
    room.sent(dead, 600)
    assert room.is_for(dead, most - 600) and not room.is_for(dead, most - 599)


@pytest.mark.parametrize("home", [0, 1])
def test_marks_and_depth_are_the_same_on_every_shard(node: Node, home: int) -> None:
    node.declare("q", shard=home, **{"x-flow-stop-count": 100, "x-flow-resume-count": 50})
    client = open_channel(node)
    publish(client, "q", *[b"x"] * 7)
    assert get(client, "q", no_ack=False)
    state, record = node.state("q"), node.queue("q")
    for shard in range(2):
        found = node.shard(shard).burial.room.marks_and_depth(record)
        assert found == (state.limits.marks, 7, state.depth_bytes)


def test_a_queue_that_holds_no_producer_has_room_for_every_letter(node: Node) -> None:
    marks = {"x-flow-stop-count": 1, "x-flow-resume-count": 0}
    room, spills = room_for(node, "spills", **{"x-overflow": "spill", "x-max-length": 1})
    _, full = room_for(node, "full", **marks)
    for queue in (spills, full):
        for _ in range(10):
            room.sent(queue, 80)
    assert room.is_for(spills, 80)
    assert not room.is_for(full, 80)
    assert room.is_for(full, 80, heeded=False), "a binding on the way to it grants it nothing"


def test_a_moving_queue_has_no_room(node: Node) -> None:
    room, dead = room_for(node, "dead")
    assert room.is_for(dead, 80)
    node.begin_move("dead", 1)
    for _, shard in node.running_shards():
        node.change(shard)
    assert not room.is_for(dead, 80) and not room.is_for(dead, 80, heeded=False)
    node.settle()
    assert room.is_for(node.queue("dead"), 80), "it has arrived on the other shard"


def test_letters_for_a_full_queue_of_another_shard() -> None:
    with Node(shards=2) as node:
        node.declare("dead", shard=1, **{"qpid.flow_stop_count": 3})
        node.declare("q", shard=0, **dlx(x_max_length=0))
        client = open_channel(node)
        bodies = [b"%d" % number for number in range(50)]
        publish(client, "q", *bodies)
        taken = []
        while len(taken) < 50:
            assert 0 < node.state("dead").depth <= 4
            taken += drain(client, "dead")
            pass_ms(node, 110)
        assert taken == bodies
        assert not node.shard(0).burial.room.under_way


def test_two_full_queues_that_dead_letter_to_each_other_go_on(node: Node) -> None:
    """Dead letters that wait for room take none in the queue they died in."""
    for queue, other in (("a", "b"), ("b", "a")):
        node.declare(queue, **dlx(key=other, qpid_flow_stop_count=5))
    client = open_channel(node)
    for queue in ("a", "b"):
        publish(client, queue, *[b"x"] * 5)
    for tag in range(1, 101):
        got = get(client, "ab"[tag % 2], no_ack=False)
        assert got
        client.send("basic.reject", 1, delivery_tag=tag, requeue=False)
    node.settle()
    assert node.state("a").depth + node.state("b").depth == 10
    for _ in range(5):
        for queue in ("a", "b"):
            drain(client, queue)
    assert not node.shard(0).burial.lanes
