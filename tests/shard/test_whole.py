"""The whole size of a message: address, properties, headers, body, and a fixed overhead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

BESIDE = 3 + 14 + 64
"""The bytes that a message with key `q` and no properties counts in addition to its body."""
LARGE = "h" * 10_000


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def publish(client: Client, count: int, body: bytes = b"", header: str = "") -> None:
    """Publish messages at once, without waiting for each."""
    for _ in range(count):
        client.publish(1, body, routing_key="q", **({"headers": {"h": header}} if header else {}))
    client.node.settle()


def purge(node: Node) -> None:
    """Purge over another connection, since anything sent after a held publish waits behind it."""
    open_channel(node).call("queue.purge", 1, queue="q")
    node.settle()


def test_headers_count_against_marks_in_bytes(node: Node) -> None:
    node.declare("q", **{"x-flow-stop-size": 100_000, "x-flow-resume-size": 50_000})
    client = open_channel(node)
    publish(client, 40, header=LARGE)
    state = node.state("q")
    assert state.saturation.saturated
    assert 10 <= state.depth <= 11 and state.contents.ready_bytes == 0
    assert 100_000 < state.depth_bytes <= 100_000 * 17 // 16 + len(LARGE) + 200
    assert node.gauges.depth_bytes(state.slot) == state.depth_bytes
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None and (gauge.whole_bytes, gauge.ready_bytes) == (state.depth_bytes, 0)


def test_empty_messages_count(node: Node) -> None:
    node.declare("q", **{"x-flow-stop-size": 10 * BESIDE, "x-flow-resume-size": 5 * BESIDE})
    publish(open_channel(node), 40)
    state = node.state("q")
    assert (state.depth, state.depth_bytes) == (11, 11 * BESIDE)


@pytest.mark.parametrize("stop", [1, 1000, 10_000, 100_000])
@pytest.mark.parametrize("size", [0, 100, 5000])
@pytest.mark.parametrize("acceptors", [1, 2])
def test_small_marks_are_exceeded_by_a_sixteenth_and_a_message(stop: int, size: int, acceptors: int) -> None:
    with Node(acceptors=acceptors, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-flow-stop-size": stop, "x-flow-resume-size": 0})
        clients = [open_channel(node, acceptor=index % acceptors) for index in range(4)]
        for _ in range(3):
            for client in clients:
                for _ in range(100_000 // (size + BESIDE)):
                    client.publish(1, bytes(size), routing_key="q")
            node.settle()
            state = node.state("q")
            bound = state.limits.marks.overshoot_bound(acceptors)[1]
            assert bound == (1 if acceptors == 1 else 2) * max(stop // 16, 1)
            assert stop < state.depth_bytes <= stop + bound + acceptors * (size + BESIDE)
            purge(node)


def test_limits_that_drop_or_refuse_count_bodies(node: Node) -> None:
    node.declare("q", **{"x-max-length-bytes": 1000, "x-overflow": "drop-head"})
    client = open_channel(node)
    publish(client, 30, bytes(100), LARGE)
    assert (node.state("q").depth, node.state("q").contents.ready_bytes) == (10, 1000)
    client.call("queue.delete", 1, queue="q")
    node.declare("q", **{"x-max-length-bytes": 1000, "x-overflow": "reject-publish"})
    publish(client, 30, bytes(100), LARGE)
    assert (node.state("q").depth, node.state("q").contents.ready_bytes) == (10, 1000)


def test_headers_count_in_what_a_shard_has_in_memory() -> None:
    with Node(memory_limit=1_000_000) as node:
        node.declare("q")
        client = open_channel(node)
        publish(client, 400, header=LARGE)
        assert node.shard(0).gate.weight > 800_000
        assert 80 <= node.state("q").depth < 200
        while node.state("q").depth:
            purge(node)
        assert node.shard(0).gate.weight == 0 == client.node.core(0).holding.parking.parked_bytes


def test_nothing_is_left_when_all_has_gone(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    for size in range(50):
        publish(client, 1 + size % 3, bytes(size), "h" * (50 - size))
    reader = open_channel(node)
    reader.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.settle()
    assert node.state("q").contents.unacked_whole == node.state("q").depth_bytes > 0
    reader.send("basic.nack", 1, delivery_tag=7, multiple=True, requeue=True)
    node.settle()
    reader.send("basic.ack", 1, delivery_tag=0, multiple=True)
    node.settle()
    state = node.state("q")
    assert (state.depth, state.depth_bytes, state.weight) == (0, 0, 0)
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None and gauge.whole_bytes == 0
