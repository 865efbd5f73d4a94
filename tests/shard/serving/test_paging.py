"""A shard's memory: contents go to disk before producers are held for want of it, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.batch.batch_cy import Batch
from shard.serving.paging import HEAD, TARGET_PERCENT
from tests.living import living
from tests.shard.steps import drain, pass_ms, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MEMORY = 500_000
SIZE = 1000
COUNT = 600
"""More messages than memory has room for."""
LARGEST_PIECE = 64 * 1024
"""Small messages go to disk together, up to this many bytes."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True, memory_limit=MEMORY) as node:
        yield node


def numbered(count: int, size: int = SIZE) -> list[bytes]:
    return [b"%d " % number + bytes(size) for number in range(count)]


def fill(client: Client, queue: str, bodies: list[bytes], at_once: int = 20, **properties: object) -> None:
    for at in range(0, len(bodies), at_once):
        publish(client, queue, *bodies[at : at + at_once], **properties)


def has_room(node: Node) -> bool:
    """Return whether the shard has room for producers, with a margin."""
    shard = node.shard(0)
    return not shard.gate.room.saturated and shard.state.weight <= MEMORY * 70 // 100


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 2}])
def test_what_consumers_have_in_hand_leaves_room(node: Node, persistent: bool, arguments: dict[str, int]) -> None:
    """A consumer may wait for a confirm before it acks."""
    node.declare("q", durable=True, **arguments)
    node.declare("other", durable=True)
    publisher, consumer = open_channel(node), open_channel(node)
    consumer.call("basic.consume", 1, queue="q")
    bodies = numbered(COUNT)
    fill(publisher, "q", bodies, delivery_mode=2 if persistent else 1)
    assert consumer.names(1) == ["basic.deliver"] * COUNT
    assert has_room(node)
    publish(publisher, "other", b"marker")
    assert drain(open_channel(node), "other") == [b"marker"]
    events = [consumer.take("basic.deliver", 1) for _ in range(COUNT)]
    assert [event.body for event in events] == bodies
    for event in events[::2]:
        consumer.send("basic.ack", 1, delivery_tag=event.delivery_tag)
    node.settle()
    recount(node, "q")
    assert has_room(node)
    consumer.call("basic.recover", 1, requeue=True)
    node.settle()
    assert [consumer.take("basic.deliver", 1).body for _ in range(COUNT // 2)] == bodies[1::2]
    consumer.send("basic.ack", 1, delivery_tag=0, multiple=True)
    node.settle()
    recount(node, "q")
    state = node.state("q")
    assert (state.depth, state.contents.paged, state.weight, node.shard(0).state.weight) == (0, 0, 0, 0)
    assert node.shard(0).state.journal.nbytes == 0


def test_what_came_back_leaves_room(node: Node) -> None:
    node.declare("q", durable=True)
    publisher, consumer = open_channel(node), open_channel(node)
    consumer.call("basic.consume", 1, queue="q")
    bodies = numbered(COUNT)
    fill(publisher, "q", bodies)
    consumer.call("channel.close", 1, code=200, text="", class_id=0, method_id=0)
    node.settle()
    assert node.state("q").contents.ready == COUNT
    assert has_room(node)
    assert drain(open_channel(node), "q") == bodies
    recount(node, "q")


def test_heads_of_many_queues_leave_room(node: Node) -> None:
    """A few of these messages fill the memory."""
    names = [f"q{number}" for number in range(20)]
    publisher, consumer = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=1)
    for name in names:
        node.declare(name, durable=True)
        consumer.call("basic.consume", 1, queue=name)
    bodies = numbered(10, 70_000)
    for name in names:
        fill(publisher, name, bodies, 1)
    for _ in range(100):
        pass_ms(node, 100)
        publisher.read()
    assert not publisher.unread
    assert has_room(node)
    for name in names:
        assert node.state(name).depth == 10


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 2}])
def test_what_a_deleted_queue_had_is_gone_at_once(node: Node, durable: bool, arguments: dict[str, int]) -> None:
    """Some messages are ready, others unacked, and their consumers have messages of the other queue unacked as well."""
    node.declare("q", durable=durable, **arguments)
    node.declare("other", durable=durable)
    publisher, consumer = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=30, global_=True)
    for name in "q", "other":
        consumer.call("basic.consume", 1, queue=name)
    before = living(Batch)
    fill(publisher, "other", numbered(10))
    fill(publisher, "q", numbered(100), at_once=1)
    fill(publisher, "other", numbered(10))
    for _ in range(30):
        consumer.take("basic.deliver", 1)
    publisher.call("queue.delete", 1, queue="q")
    node.settle()
    assert consumer.take("basic.cancel", 1)
    assert consumer.names(1) == ["basic.deliver"] * 10
    consumer.events[1].clear()
    shard = node.shard(0)
    assert shard.state.weight == node.state("other").weight
    assert living(Batch) - before < 20
    consumer.send("basic.ack", 1, delivery_tag=0, multiple=True)
    node.settle()
    recount(node, "other")
    assert (shard.state.weight, node.state("other").depth) == (0, 0)
    if durable:
        assert shard.state.journal.nbytes == 0


def test_contents_leave_above_half_of_the_memory_until_two_fifths_are_left(node: Node) -> None:
    """Between the two marks nothing happens, since not every message beyond a mark is worth a write."""
    node.declare("q")
    client, shard = open_channel(node), node.shard(0)
    queue = node.state("q")
    while shard.state.weight <= MEMORY * 48 // 100:
        publish(client, "q", *numbered(4))
    assert queue.contents.paged == 0
    while shard.state.weight > MEMORY * 45 // 100:
        publish(client, "q", *numbered(4))
        assert shard.state.weight <= MEMORY * 52 // 100
    target = MEMORY * TARGET_PERCENT // 100
    assert target - LARGEST_PIECE < shard.state.weight <= target
    assert queue.contents.paged > 0 and not shard.paging.begun
    recount(node, "q")


@pytest.mark.parametrize("queues", [1, 4])
def test_heads_share_half_of_the_memory_at_which_paging_ends(node: Node, queues: int) -> None:
    """Only queues with consumers have a head."""
    node.declare("idle")
    for number in range(queues):
        node.declare(f"q{number}")
        open_channel(node).call("basic.consume", 1, queue=f"q{number}")
    paging = node.shard(0).paging
    paging.share_heads()
    assert paging.head == min(HEAD, MEMORY * TARGET_PERCENT // 100 // (2 * queues))
