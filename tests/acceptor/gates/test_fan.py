"""Publishes to several queues: a lagging queue with an inherited limit leaves the flow set while others keep up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.shard.steps import drain, get, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MARKS: dict[str, Any] = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}
INHERITED = {"flow-stop-count": 20, "flow-resume-count": 10}
BODY = bytes(100)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2, stores=True) as node:
        node.policy("marks", "", INHERITED, "node", vhost="")
        for shard, name in enumerate(("a", "b", "c")):
            node.declare(name, shard % 2, True)
        node.bind("x", "a", "b", "c")
        yield node


def flood(client: Client, count: int = 20, exchange: str = "x", key: str = "") -> None:
    """Publish ten messages `count` times."""
    for _ in range(count):
        publish(client, key, *[BODY] * 10, exchange=exchange)


def held(client: Client) -> bool:
    return client.connection.channels[1].held_by is not None


def depths(node: Node) -> list[int]:
    return [node.state(name).depth for name in ("a", "b", "c")]


def keep_up(node: Node, *queues: str) -> None:
    consumer = open_channel(node)
    for queue in queues:
        consumer.call("basic.consume", 1, queue=queue, no_ack=True)


def test_the_slowest_does_not_set_everyones_pace(node: Node) -> None:
    keep_up(node, "b", "c")
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    flood(publisher)
    assert depths(node) == [200, 0, 0]
    assert not held(publisher)
    assert publisher.events[1][-1].delivery_tag == 200, "confirms do not wait for it either"
    assert sum(each["event"] == "queue lags" for each in node.logs) == 1


def test_one_that_keeps_up_is_enough(node: Node) -> None:
    keep_up(node, "c")
    publisher = open_channel(node)
    flood(publisher)
    assert depths(node) == [200, 200, 0] and not held(publisher)


def test_all_that_lag_hold_their_producers_until_the_first_has_room(node: Node) -> None:
    publisher, taker = open_channel(node, 1), open_channel(node)
    publisher.call("confirm.select", 1)
    flood(publisher)
    assert held(publisher) and max(depths(node)) < 40
    confirmed = len(publisher.events[1])
    while node.state("b").depth > 10:
        assert get(taker, "b")
    node.settle()
    assert len(publisher.events[1]) > confirmed
    while drain(taker, "b"):
        node.settle()
    assert not held(publisher)
    assert depths(node) == [200, 0, 200]


def test_what_is_published_to_a_queue_alone_is_held_by_it(node: Node) -> None:
    keep_up(node, "b", "c")
    publisher = open_channel(node)
    flood(publisher)
    other = open_channel(node)
    publish(other, "a", b"alone")
    assert held(other) and depths(node) == [200, 0, 0]


@pytest.mark.parametrize(("share", "lagging", "holds"), [("0 %", 1, True), ("50 %", 1, False), ("50 %", 2, True)])
def test_a_policy_says_how_many_must_lag(node: Node, share: str, lagging: int, holds: bool) -> None:
    node.policy("share", "^x$", {"flow-share": share}, "exchanges")
    keep_up(node, *("a", "b", "c")[lagging:])
    publisher = open_channel(node)
    flood(publisher)
    assert held(publisher) is holds
    assert (max(depths(node)) < 40) is holds
    node.policy("share", "^x$", None)
    node.settle()
    assert not held(publisher) and max(depths(node)) == 200


def test_an_essential_queue_is_not_left_behind(node: Node) -> None:
    node.policy("essential", "^a$", {"essential": True})
    keep_up(node, "b", "c")
    publisher = open_channel(node)
    flood(publisher)
    assert held(publisher) and max(depths(node)) < 40
    node.policy("essential", "^a$", None)
    node.settle()
    assert not held(publisher) and depths(node) == [200, 0, 0]


@pytest.mark.parametrize("says", ["declaration", "policy"])
def test_a_queue_that_says_so_itself_holds_whoever_keeps_up(node: Node, says: str) -> None:
    """Such a queue does not exceed its mark because others keep up, unless a policy of the exchange says so."""
    limit = {"max-length": 25, "overflow": "flow"}
    if says == "policy":
        node.policy("limit", "^work$", limit)
    node.declare("work", durable=True, **({} if says == "policy" else {f"x-{key}": limit[key] for key in limit}))
    node.bind("x", "work")
    keep_up(node, "a", "b", "c")
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    flood(publisher)
    state = node.state("work")
    assert held(publisher) and state.depth <= 20 + 1 and not state.exemption.lagging
    node.policy("share", "^x$", {"flow-share": "100 %"}, "exchanges")
    node.settle()
    assert not held(publisher) and state.depth == 200 and state.exemption.lagging


def test_one_that_is_left_is_shown_as_such(node: Node) -> None:
    keep_up(node, "b", "c")
    flood(open_channel(node))
    gauge = node.gauges.queue_read(node.queue("a").slot)
    assert gauge is not None and gauge.lagging and gauge.saturated and gauge.ready == 200
    drain(open_channel(node), "a")
    gauge = node.gauges.queue_read(node.queue("a").slot)
    assert gauge is not None and not gauge.lagging and not gauge.saturated


def test_a_queue_that_may_hold_nobody_is_nobody_to_leave_for(node: Node) -> None:
    """Otherwise a subscriber with its own queue could get other queues flooded."""
    owner = open_channel(node)
    owner.call("queue.declare", 1, queue="own", exclusive=True, arguments=MARKS)
    node.bind("y", "a")
    owner.call("queue.bind", 1, queue="own", exchange="y", routing_key="")
    owner.call("basic.consume", 1, queue="own", no_ack=True)
    publisher = open_channel(node)
    flood(publisher, exchange="y")
    assert held(publisher) and node.state("a").depth < 40


def test_a_transaction_leaves_the_slow_behind_too(node: Node) -> None:
    keep_up(node, "b", "c")
    publisher = open_channel(node)
    publisher.call("tx.select", 1)
    for _ in range(5):
        publish(publisher, "", *[BODY] * 15, exchange="x")
        publisher.call("tx.commit", 1)
    assert depths(node) == [75, 0, 0]


def test_what_holds_for_another_reason_is_let_go_at_a_recheck(node: Node) -> None:
    """Two of three queues must lag; at the release, these are not the ones at which the producer began to wait."""
    node.policy("share", "^x$", {"flow-share": "60 %"}, "exchanges")
    publisher, taker, filler = open_channel(node), open_channel(node), open_channel(node)
    publisher.call("confirm.select", 1)
    keep_up(node, "c")
    flood(publisher)
    assert held(publisher)
    while drain(taker, "a"):
        node.settle()
    node.now += 1
    node.settle()
    assert not held(publisher) and depths(node)[0] < 200
    assert filler.connection.channels[1].held_by is None
