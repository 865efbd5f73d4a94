"""Overflow `spill`: no producer is held, and messages beyond the window go to disk and come back in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shard.serving.paging import HEAD, PIECE
from shard.turns.room import PROCESSES
from tests.shard.steps import drain, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

pytestmark = pytest.mark.long

SIZE = 1000
COUNT = 3000
WINDOW = 50
LARGEST_PIECE = 64 * 1024
"""Small messages go to disk together, up to this many bytes."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True) as node:
        yield node


def fill(client: Client, queue: str, count: int = COUNT, **properties: object) -> list[bytes]:
    bodies = [b"%d" % number + bytes(SIZE) for number in range(count)]
    for at in range(0, count, 20):
        publish(client, queue, *bodies[at : at + 20], **properties)
    return bodies


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("limit", [{"x-max-length": WINDOW}, {"x-max-length-bytes": WINDOW * SIZE}])
def test_what_is_beyond_the_window_is_on_disk(node: Node, persistent: bool, limit: dict[str, int]) -> None:
    node.declare("q", durable=persistent, **{"x-overflow": "spill", **limit})
    client = open_channel(node)
    bodies = fill(client, "q", delivery_mode=2 if persistent else 1)
    state = node.state("q")
    assert state.depth == COUNT
    assert WINDOW * SIZE < state.weight <= 2 * WINDOW * SIZE + PIECE + LARGEST_PIECE
    assert node.shard(0).state.weight == state.weight
    assert drain(client, "q") == bodies
    assert (state.depth, state.contents.paged, state.weight) == (0, 0, 0)
    recount(node, "q")


def test_a_backlog_within_the_window_stays_in_memory(node: Node) -> None:
    node.declare("q", **{"x-overflow": "spill", "x-max-length": COUNT})
    fill(open_channel(node), "q")
    assert node.state("q").contents.paged == 0


def test_consumers_read_ahead_of_a_small_window(node: Node) -> None:
    node.declare("q", **{"x-overflow": "spill", "x-max-length": 1})
    publisher, consumer = open_channel(node), open_channel(node)
    bodies = fill(publisher, "q")
    consumer.call("basic.qos", 1, prefetch_count=10)
    consumer.call("basic.consume", 1, queue="q")
    taken = []
    while len(taken) < COUNT:
        event = consumer.take("basic.deliver", 1)
        taken.append(event.body)
        consumer.send("basic.ack", 1, delivery_tag=event.delivery_tag)
        node.settle()
        assert node.state("q").weight < 2 * HEAD + PIECE + LARGEST_PIECE
    assert taken == bodies


def test_what_is_read_ahead_keeps_within_the_memory_of_the_shard() -> None:
    with Node(stores=True, memory_limit=1_000_000) as node:
        node.declare("q", **{"x-overflow": "spill", "x-max-length": 1})
        publisher, consumer = open_channel(node), open_channel(node)
        for _ in range(150):
            publish(publisher, "q", *[bytes(SIZE)] * 10)
        consumer.call("basic.qos", 1, prefetch_count=1)
        consumer.call("basic.consume", 1, queue="q")
        for tag in range(1, 500):
            consumer.send("basic.ack", 1, delivery_tag=tag)
            node.settle()
            assert node.shard(0).state.weight < 650_000


@pytest.mark.parametrize("priorities", [{}, {"x-max-priority": 2}])
def test_what_consumers_have_in_hand_goes_while_a_commit_is_under_way(priorities: dict[str, int]) -> None:
    """A disk may be slow, and consumers may meanwhile get more than memory has room for."""
    with Node(stores=True, memory_limit=4_000_000) as node:
        node.declare("q", **priorities)
        node.declare("durable", durable=True)
        publisher = open_channel(node)
        for _ in range(400):
            publish(publisher, "q", *[bytes(SIZE)] * 20)
        consumers = [open_channel(node) for _ in range(40)]
        node.commits = False
        publish(publisher, "durable", b"", delivery_mode=2)
        node.commit_shard(0)
        assert node.shard(0).commits.under_way
        for consumer in consumers:
            consumer.call("basic.qos", 1, prefetch_count=200)
            consumer.call("basic.consume", 1, queue="q")
            assert node.shard(0).state.weight < 3_000_000
        assert node.state("q").contents.unacked == 8000
        node.commits = True
        node.settle()
        recount(node, "q")


def test_priorities_keep_what_is_served_first(node: Node) -> None:
    node.declare("q", **{"x-overflow": "spill", "x-max-length": WINDOW, "x-max-priority": 2})
    client = open_channel(node)
    low = fill(client, "q", 600)
    high = fill(client, "q", 600, priority=2)
    state = node.state("q")
    assert state.weight <= 3 * (WINDOW * (SIZE + 64) + PIECE + LARGEST_PIECE)
    assert drain(client, "q") == high + low


def test_a_policy_makes_a_queue_spill_and_stop_doing_so(node: Node) -> None:
    """Held producers are released; contents on disk stay there until they are needed."""
    node.declare("q", **{"qpid.flow_stop_count": 100})
    client = open_channel(node)
    bodies = fill(client, "q", 1000)
    assert node.state("q").depth < 200
    node.policy("spilling", "^q$", {"overflow": "spill", "max-length": WINDOW})
    node.settle()
    assert node.state("q").depth == 1000
    assert node.state("q").contents.paged > 0
    node.policy("spilling", "^q$", None)
    assert drain(client, "q") == bodies


def test_a_queue_that_goes_takes_what_it_spilled_along(node: Node) -> None:
    node.declare("q", **{"x-overflow": "spill", "x-max-length": WINDOW})
    client = open_channel(node)
    fill(client, "q")
    client.call("queue.delete", 1, queue="q")
    node.settle()
    shard = node.shard(0)
    assert shard.state.journal is not None
    assert (shard.state.weight, shard.state.journal.nbytes, shard.paging.beyond) == (0, 0, {})


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("end", ["acceptor", "connection", "connection unwritten"])
def test_what_was_delivered_of_it_comes_as_redelivered_in_a_later_incarnation(durable: bool, end: str) -> None:
    """Spilled messages outlive their shard, and so does the fact that they may have been delivered."""
    with Node(2, stores=True) as node:
        node.declare("q", durable=durable, **{"x-overflow": "spill", "x-max-length": 1})
        publisher, consumer = open_channel(node, 1), open_channel(node, 0)
        fill(publisher, "q", 500)
        consumer.call("basic.qos", 1, prefetch_count=300)
        if end == "connection unwritten":
            node.commits = False
        consumer.call("basic.consume", 1, queue="q")
        seen = {event.body for event in consumer.events[1]}
        assert len(seen) == 300
        node.kill_shard(0)
        if end == "acceptor":
            node.kill_acceptor(0)
        node.commits = True
        node.start_shard(0)
        node.settle()
        if end != "acceptor":
            consumer.lose()
            node.settle()
            node.kill_shard(0)
            node.start_shard(0)
            node.settle()
        publisher.call("basic.consume", 1, queue="q")
        again = [event for event in publisher.events[1] if event.body in seen]
        assert len(again) > 200, "they are there still"
        assert all(event.redelivered for event in again)


def test_where_memory_of_the_processes_is_scarce_contents_go_sooner() -> None:
    with Node(stores=True, memory_limit=4_000_000) as node:
        node.declare("q")
        fill(open_channel(node), "q", 1500)
        assert node.state("q").contents.paged == 0
        limits = node.shard(0).gate.room.limits[PROCESSES]
        node.shard(0).gate.update_processes(limits.resume_bytes + 1, node.shard(0).state.now)
        node.settle()
        assert node.shard(0).state.weight <= 1_000_000
        paged = node.state("q").contents.paged
        assert paged > 500
        node.shard(0).gate.update_processes(0, node.shard(0).state.now)
        fill(open_channel(node), "q", 300)
        assert node.state("q").contents.paged == paged
