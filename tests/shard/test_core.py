"""What a shard does with what acceptors ask of it."""

from __future__ import annotations

from tests.joined import Client, Node


def open_channel(node: Node, acceptor: int = 0, number: int = 1) -> Client:
    client = node.connect(acceptor)
    client.call("channel.open", number)
    return client


def test_a_queue_that_goes_makes_room_in_memory() -> None:
    """Nobody else has to touch the shard for those who wait for its memory to be let in."""
    with Node(memory_limit=100_000) as node:
        full, other = node.declare("full"), node.declare("other")
        client = open_channel(node)
        for _ in range(20):
            client.publish(1, bytes(9000), routing_key="full")
        node.settle(1)
        assert node.gauges.saturated(0)
        client.publish(1, b"waits", routing_key="other")
        node.settle(1)
        assert node.state("other").depth == 0
        node.ask("queue_delete", queue_id=full.queue_id)
        node.settle()
        assert not node.gauges.saturated(0)
        gauge = node.gauges.queue_read(0)
        assert gauge is not None and gauge.ready_bytes == node.shard(0).weight
        assert node.gauges.depth_count(other.slot) == 1
