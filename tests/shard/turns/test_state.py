"""The state that the parts of a shard share: its clock, the memory of its queues, and the numbers of its messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shard.turns.state import START_BITS, STARTS_MAX, ShardState
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_each_queue_counts_with_the_memory_last_set(node: Node) -> None:
    state = ShardState(0, node.gauges, 0)
    one, other = (state.make_queue(node.declare(name)) for name in ("one", "other"))
    for queue, weight in (one, 100), (other, 50), (one, 30), (one, 30), (other, 0):
        state.weigh(queue, weight)
    assert (state.weight, one.weighed, other.weighed) == (30, 30, 0)


def test_a_queue_is_touched_once_a_turn(node: Node) -> None:
    state = ShardState(0, node.gauges, 0)
    queue = state.make_queue(node.declare("q"))
    for _ in range(2):
        state.touch(queue)
    assert list(state.touched.values()) == [queue]


def test_a_queue_is_made_as_the_topology_declares_it(node: Node) -> None:
    record = node.declare("q", durable=True, **{"x-max-priority": 5})
    state = ShardState(0, node.gauges, 7, starts=3)
    queue = state.make_queue(record)
    assert (queue.id, queue.slot, queue.usage.counted_since, str(queue)) == (
        record.queue_id, record.slot, 7, "queue 'q' in vhost '/'",
    )  # fmt: skip
    assert queue.features.max_priority == 5
    assert not queue.contents.durable, "a shard without a journal stores nothing"


def test_wall_clock_seconds_are_those_of_people(node: Node) -> None:
    state = ShardState(0, node.gauges, 2_500_000)
    state.wall_ahead = 1_700_000_000_600_000
    assert state.wall_seconds() == 1_700_000_003


@pytest.mark.parametrize("starts", [1, 5000])
def test_numbers_of_messages_do_not_repeat_within_many_incarnations(node: Node, starts: int) -> None:
    bases = {ShardState(0, node.gauges, 0, starts + later).base for later in range(STARTS_MAX)}
    assert len(bases) == STARTS_MAX
    assert all(base % (1 << START_BITS) == 0 and 0 <= base < 1 << 62 for base in bases), (
        "numbers are signed, of 64 bits"
    )
