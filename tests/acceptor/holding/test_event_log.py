"""An acceptor's events of flow control: the queues that get them, and their records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.holding.event_log import MOST_RECORDS
from penstock.amqp.values import Timestamp
from penstock.bus.operations_cy import Operation
from penstock.bus.to_shard import Excused
from tests.shard.steps import get, publish
from tests.simulator.joined.node import Node, open_channel

FACTS: dict[str, Any] = {"event": "limited", "vhost": "/", "queue": "orders", "cause": "rate", "count": 3}
AT = 1_700_000_000.75


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        for shard, name in enumerate(("one", "two")):
            node.declare(name, shard=shard, **{"x-flow-stop-count": 4, "x-flow-resume-count": 2})
            node.ask("queue_bind", queue=name, source="amq.flow", key="limited.#")
        node.settle()
        yield node


def operations(node: Node, shard: int) -> list[Operation]:
    return node.core(0).links[shard].turn.operations


def test_an_event_comes_to_each_queue_that_is_bound_for_it(node: Node) -> None:
    node.core(0).events.publish(FACTS, AT)
    node.core(0).events.publish({**FACTS, "event": "unlimited"}, AT)
    node.settle()
    reader = open_channel(node)
    for name in ("one", "two"):
        assert node.state(name).depth == 1
        event = get(reader, name)
        assert event is not None and (event.exchange, event.routing_key) == ("amq.flow", "limited./.orders")
        assert json.loads(event.body) == event.properties["headers"] == FACTS
        assert event.properties["timestamp"] == Timestamp(int(AT))


def test_events_are_recorded_with_their_time_whether_or_not_a_queue_gets_them(node: Node) -> None:
    log = node.core(0).events
    log.publish(FACTS, AT)
    log.publish({**FACTS, "event": "unlimited"}, AT + 1)
    assert log.take_all() == [{"at": AT, **FACTS}, {"at": AT + 1, **FACTS, "event": "unlimited"}]
    assert log.take_all() == []


def test_beyond_so_many_records_events_are_only_published(node: Node) -> None:
    log = node.core(0).events
    for number in range(MOST_RECORDS + 1):
        log.publish({**FACTS, "event": "unlimited", "count": number}, AT)
    log.publish(FACTS, AT)
    assert [record["count"] for record in log.take_all()] == [*range(MOST_RECORDS)]
    node.settle()
    assert node.state("one").depth == 1


def test_a_full_queue_gets_no_event(node: Node) -> None:
    publish(open_channel(node), "one", *[b"m"] * 10)
    assert node.state("one").saturation.saturated
    depth = node.state("one").depth
    node.core(0).events.publish(FACTS, AT)
    node.settle()
    assert (node.state("one").depth, node.state("two").depth) == (depth, 1)


def test_a_shard_learns_first_that_an_event_counts_as_no_overshoot(node: Node) -> None:
    node.core(0).events.publish(FACTS, AT)
    for shard in range(2):
        excused, _ = operations(node, shard)
        assert isinstance(excused, Excused) and [*node.core(0).links[shard].turn.contents.publishes] == [1]


def test_what_a_link_has_no_room_for_is_dropped(node: Node) -> None:
    node.kill_shard(0)
    node.settle()
    node.core(0).events.publish(FACTS, AT)
    assert operations(node, 0) == []
    node.start_shard(0)
    node.settle()
    assert (node.state("one").depth, node.state("two").depth) == (0, 1)
    assert len(node.core(0).events.take_all()) == 1
