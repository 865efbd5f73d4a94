"""A later incarnation of a shard: nothing is delivered before its acceptors have reported, or patience ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.memory.gauges import DEAD, READY, STARTING, Gauges
from shard.turns.link import Link
from shard.turns.recovery import PATIENCE_US, Recovery, living_acceptors
from tests.shard.test_incarnations import delivered, numbered, publish, ready
from tests.simulator.joined.node import Node, open_channel

NOW = 1_000


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, 2, stores=True) as node:
        yield node


def test_it_is_over_once_all_have_reported() -> None:
    recovery, first, second = Recovery([(0, 1), (1, 3)], NOW), Link(b"acceptor.0.1"), Link(b"acceptor.1.3")
    recovery.on_hold(first)
    recovery.on_hold(Link(b"acceptor.1.4"))  # another incarnation
    assert not recovery.is_over(NOW)
    recovery.on_hold(second)
    assert recovery.is_over(NOW)
    assert {first, second} < recovery.reported


def test_without_acceptors_there_is_nothing_to_wait_for() -> None:
    assert Recovery([], NOW).is_over(NOW)


def test_acceptors_are_found_in_the_gauges(tmp_path: Path) -> None:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=4, shards=1, queues=1, pid=os.getpid()) as gauges:
        for index, state in enumerate((READY, STARTING, DEAD)):
            gauges.process_write("acceptor", index, pid=1, incarnation=index + 5, state=state, started_us=0, restarts=0)
        assert living_acceptors(gauges, 2) == [(0, 5), (1, 6)]
        assert living_acceptors(gauges, 1) == [(0, 5)], "one that starts has not met a shard that is added"


def test_dead_incarnations_are_not_waited_for() -> None:
    recovery = Recovery([(0, 1), (0, 2), (0, 3), (1, 1)], NOW)
    recovery.died("acceptor", 0, 2)
    recovery.died("shard", 1, 9)
    assert recovery.awaited == {(0, 3), (1, 1)}


def test_patience_ends_with_a_warning_that_names_the_silent() -> None:
    recovery = Recovery([(2, 1), (1, 1), (0, 1)], NOW)
    recovery.on_hold(Link(b"acceptor.1.1"))
    with capture_logs() as logs:
        assert not recovery.is_over(NOW + PATIENCE_US - 1) and not logs
        assert recovery.is_over(NOW + PATIENCE_US)
    (warning,) = logs
    assert warning["event"] == "acceptors did not report unacked messages: they may be delivered twice"
    assert (warning["log_level"], warning["acceptors"]) == ("warning", [0, 2])


def test_an_auto_delete_queue_does_not_go_while_an_acceptor_is_silent(node: Node) -> None:
    node.ask("queue_declare", name="q", auto_delete=True)
    shard = node.queue("q").shard
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.kill_shard(shard)
    node.start_shard(shard)
    while node.step(slow=0):
        pass
    node.now += 10
    while node.step(slow=0):
        pass
    assert node.shard(shard).state.recovery is None
    node.settle()
    assert len(node.state("q").ring) == 1
    client.call("basic.cancel", 1, consumer_tag="c")
    assert node.router.topology.queue("/", "q") is None


def test_deliveries_over_two_acceptors_wait_for_both(node: Node) -> None:
    """Until the second acceptor has reported its deliveries, the first is sent nothing, and its requests wait."""
    node.declare("q", durable=True)
    first, second = open_channel(node, 0), open_channel(node, 1)
    second.call("basic.qos", 1, prefetch_count=2)
    second.call("basic.consume", 1, queue="q")
    publish(first, *numbered(*range(4)))
    node.settle()
    assert len(delivered(second)) == 2
    node.kill_shard(0)
    node.start_shard(0)
    first.send("basic.get", 1, queue="q")
    first.read()
    while node.meet(0) or node.finish(0) or node.send_up(0, 0) or node.finish_shard(0) or node.send_down(0, 0):
        pass
    assert not first.names(1) and ready(node) == (4, 0)
    node.settle()
    assert first.take("basic.get-ok", 1).body == b"2"
    assert ready(node) == (1, 3)
