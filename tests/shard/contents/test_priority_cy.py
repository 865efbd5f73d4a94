"""Queues with priorities: order, places of requeued messages, limits, expiry; compiled and plain against a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.properties import encode_properties
from penstock.batch.batch_cy import HAS_PRIORITY
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.store.journal import Journal
from tests.shard.steps import drain, get, pass_ms, publish, recount
from tests.shard.store.test_store import OpenedStore, bodies, prioritised
from tests.simulator.joined.node import Node, open_channel
from tests.twins import both_ways

Load = Callable[[str], ModuleType]
HIGHEST = 5


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def publish_all(node: Node, queue: str, *priorities: int | None) -> None:
    """Publish messages in one batch; each body is the number of its message."""
    client = open_channel(node)
    for number, priority in enumerate(priorities):
        client.publish(1, b"%d" % number, "", queue, **({} if priority is None else {"priority": priority}))
    client.read()
    node.settle()


def test_the_highest_first_and_first_in_first_out(node: Node) -> None:
    node.declare("q", **{"x-max-priority": HIGHEST})
    publish_all(node, "q", None, 3, 9, 5, 1, 0, 3)
    recount(node, "q")
    assert drain(open_channel(node), "q") == [b"2", b"3", b"1", b"6", b"4", b"0", b"5"]
    recount(node, "q")


def test_without_the_argument_priorities_mean_nothing(node: Node) -> None:
    node.declare("q")
    publish_all(node, "q", 1, 5, 3)
    assert drain(open_channel(node), "q") == [b"0", b"1", b"2"]


def test_a_requeued_message_returns_to_its_place(node: Node) -> None:
    node.declare("q", **{"x-max-priority": HIGHEST})
    publish_all(node, "q", 1, 3, 3, 2)
    client = open_channel(node)
    tags = [got.delivery_tag for _ in range(3) if (got := get(client, "q", no_ack=False))]
    for tag in (tags[2], tags[0]):
        client.send("basic.nack", 1, delivery_tag=tag, requeue=True)
    node.settle()
    first = get(client, "q")
    assert first and (first.body, first.redelivered) == (b"1", True)
    assert drain(client, "q") == [b"3", b"0"]
    recount(node, "q")


def test_a_limit_drops_what_would_be_served_first(node: Node) -> None:
    """As in RabbitMQ, messages are dropped from the head of the queue, where the highest priority is."""
    node.declare("q", **{"x-max-priority": HIGHEST, "x-max-length": 3})
    publish_all(node, "q", 0, 5, 1, 2, 0)
    assert drain(open_channel(node), "q") == [b"2", b"0", b"4"]


def test_every_line_expires(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **{
        "x-max-priority": HIGHEST, "x-message-ttl": 100, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    })  # fmt: skip
    publish_all(node, "q", 0, 5)
    pass_ms(node, 60)
    client = open_channel(node)
    publish(client, "q", b"late", priority=5)
    pass_ms(node, 60)
    assert drain(client, "q") == [b"late"]
    assert sorted(drain(client, "dead")) == [b"0", b"1"]
    recount(node, "q")


def test_consumers_with_prefetch(node: Node) -> None:
    node.declare("q", **{"x-max-priority": HIGHEST})
    publish_all(node, "q", *(number % 6 for number in range(60)))
    consumer = open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=7)
    consumer.call("basic.consume", 1, queue="q")
    got = []
    while True:
        node.settle()
        deliveries = [event for event in consumer.events[1] if event.name == "basic.deliver"]
        if not deliveries:
            break
        assert len(deliveries) <= 7
        consumer.events[1].clear()
        got += [event.body for event in deliveries]
        consumer.send("basic.ack", 1, delivery_tag=deliveries[-1].delivery_tag, multiple=True)
    expected = sorted(range(60), key=lambda number: (-min(number % 6, HIGHEST), number))
    assert got == [b"%d" % number for number in expected]
    assert node.state("q").depth == 0


def test_lines_of_priorities_come_back(tmp_path: Path) -> None:
    def make(journal: Journal) -> Queue:
        return PriorityQueue(7, None, 9, 1 << 36, journal, True)

    opened = OpenedStore(tmp_path, make)
    for body, priority in ((b"low", 1), (b"high", 9), (b"middle", 5)):
        opened.queue.enqueue(prioritised(priority, body), 0, 1)
    taken = opened.queue.pop(1, UNLIMITED, False)
    opened.queue.record_position()
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path, make)
    assert opened.queue.claim(taken[0].sequence, 1) == [(taken[0].sequence, 1)]
    assert bodies(opened.queue) == [(b"middle", False), (b"low", False)]
    opened.end()


def test_lines_of_priorities_are_read_ahead_in_the_order_in_which_they_are_served(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path, lambda journal: PriorityQueue(7, None, 9, 1 << 36, journal, True))
    for body, priority in ((b"low", 1), (b"high", 9), (b"middle", 5)):
        opened.queue.enqueue(prioritised(priority, body), 0, 1)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    wanted = opened.queue.ahead(opened.queue.first_ready(), 100)
    assert [segment.sequence >> 48 for segment in wanted] == [9, 5]
    opened.queue.reading = True
    assert bodies(opened.queue) == []
    opened.queue.enqueue(prioritised(9, b"new"), 0, 1)
    opened.queue.enqueue(prioritised(7, b"newest"), 0, 1)
    assert bodies(opened.queue) == [], "what is lower does not overtake what is being read"
    for segment in wanted:
        opened.queue.install(segment, opened.journal.load(7, segment))
    opened.queue.reading = False
    assert [body for body, _ in bodies(opened.queue)] == [b"high", b"new", b"newest", b"middle", b"low"]
    opened.end()


def test_sizes_that_have_to_be_read_leave_the_memory_counted_as_it_is(tmp_path: Path) -> None:
    """A message is sized alone when it is settled alone; if its batch was paged out meanwhile, all of it is read."""
    opened = OpenedStore(tmp_path, lambda journal: PriorityQueue(7, None, 9, 1 << 36, journal, True))
    opened.queue.enqueue(prioritised(5, b"%1000d" % 1, b"%1000d" % 2), 0, 2)
    opened.commit()
    in_memory = opened.queue.weight()
    (taken,) = opened.queue.pop(2, UNLIMITED, False)
    opened.queue.page_out_front(UNLIMITED, 0, False)
    assert opened.queue.weight() < in_memory - 2000
    assert opened.queue.size_of(taken.sequence, 1) > 1000
    assert opened.queue.weight() == in_memory
    opened.queue.settle(taken.sequence, 2)
    assert opened.queue.weight() == 0
    opened.end()


def batch_of(load: Load, priorities: list[int], start: int) -> Any:
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for number, priority in enumerate(priorities, start):
        properties = encode_properties({"priority": priority} if priority else {})
        header = b"\0\x3c\0\0" + bytes(8) + properties
        builder.add(b"\0\1q", header, b"%d" % number, HAS_PRIORITY if priority else 0)
    return builder.finish()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(st.integers(0, 7), min_size=1, max_size=6)),
        st.tuples(st.just("take"), st.integers(1, 6)),
        st.tuples(st.just("requeue"), st.integers(0, 9)),
        st.tuples(st.just("settle"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.integers(0, 6)),
    ),
    max_size=25,
)


@both_ways
@given(steps=steps)
def test_against_a_model(load: Load, steps: list[tuple[str, Any]]) -> None:
    queue = load("shard.contents.priority_cy").PriorityQueue(1, None, HIGHEST)
    ready: list[tuple[int, int, bytes]] = []  # (priority as the model sorts it, number, body)
    held: list[tuple[int, tuple[int, int, bytes]]] = []
    made = 0
    for kind, value in steps:
        if kind == "enqueue":
            queue.enqueue(batch_of(load, value, made), 0, len(value))
            ready += [(-min(p, HIGHEST), n, b"%d" % n) for n, p in enumerate(value, made)]
            made += len(value)
            ready.sort()
        elif kind == "take":
            taken = queue.pop(value, UNLIMITED, False)
            got = [(i.sequence + n, i.batch.record(i.first + n)[2]) for i in taken for n in range(i.count)]
            assert [body for _, body in got] == [message[2] for message in ready[:value]]
            held += [(sequence, message) for (sequence, _), message in zip(got, ready, strict=False)]
            del ready[:value]
        elif kind == "drop":
            assert queue.drop_head(value, UNLIMITED) == max(len(ready) - value, 0)
            del ready[: max(len(ready) - value, 0)]
        elif held:
            sequence, message = held.pop(value % len(held))
            if kind == "requeue":
                queue.requeue(sequence, 1)
                ready.append(message)
                ready.sort()
            else:
                queue.settle(sequence, 1)
        assert (queue.ready, queue.unacked) == (len(ready), len(held))
        assert queue.ready_bytes == sum(len(body) for *_, body in ready)
        assert queue.totals.published == made == queue.ready + queue.unacked + queue.totals.acked + queue.totals.dropped
