"""What a queue is lent beyond its marks is lent on when its shard dies, and where it moves."""

from __future__ import annotations

from typing import Any

from tests.joined import Node, open_channel
from tests.shard.steps import get, publish

STOP, RESUME = 20, 10
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}
SHARDS = 2


def is_lent_on(node: Node, lent: tuple[int, int]) -> bool:
    """Whether the queue holds nobody though it is beyond its mark, and the gauges tell what it is lent."""
    state, gauge = node.state("q").saturation, node.gauges.queue_read(node.queue("q").slot)
    assert gauge is not None and node.state("q").depth > STOP
    return state.lent_beyond() == (gauge.lent_count, gauge.lent_bytes) == lent and not state.saturated


def test_it_is_lent_on() -> None:
    with Node(1, SHARDS, stores=True) as node:
        node.declare("q", durable=True, **MARKS)
        home = node.queue("q").shard
        producer, consumer = open_channel(node), open_channel(node)
        publish(producer, "q", *[b"m"] * (STOP + 1), delivery_mode=2)
        queue = node.state("q")
        assert queue.saturation.saturated
        assert node.shard(home).flow.lend(queue, node.microseconds())
        node.shard(home).state.touch(queue)
        publish(producer, "q", b"m", delivery_mode=2)
        lent = queue.saturation.lent_beyond()
        assert lent[0] > 1 and is_lent_on(node, lent)
        for _ in range(2):
            node.kill_shard(home)
            node.start_shard(home)
            node.settle()
            publish(producer, "q", b"m", delivery_mode=2)
            assert is_lent_on(node, lent)
            home = 1 - home
            node.move("q", home)
            node.settle(2)
            assert node.queue("q").shard == home
            assert is_lent_on(node, lent)
        publish(producer, "q", *[b"m"] * (STOP + lent[0]), delivery_mode=2)
        assert node.state("q").saturation.saturated
        while node.state("q").depth > RESUME + lent[0]:
            assert get(consumer, "q")
        node.settle(1)
        assert not node.state("q").saturation.saturated
