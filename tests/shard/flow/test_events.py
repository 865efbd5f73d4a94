"""The recording of flow-control events."""

from __future__ import annotations

from shard.flow.events import RECORDS_MAX
from tests.simulator.joined.node import Node


def test_all_kinds_are_recorded_and_of_very_many_a_second_the_rest_is_counted() -> None:
    with Node() as node:
        node.declare("q", **{"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0})
        node.settle()
        events, queue = node.shard(0).events, node.state("q")
        events.records.clear()
        node.shard(0).state.now = 7_000_000
        for _ in range(50):
            events.record("stop", queue)
        assert len(events.records) == RECORDS_MAX and not events.waiting
        node.shard(0).state.now = 8_500_000
        events.record("resume", queue, seconds=1.5)
        last = events.records[-1]
        assert (last["at"], last["event"], last["vhost"], last["queue"]) == (8.5, "resume", "/", "q")
        assert (last["stop_count"], last["seconds"], last["left_out"]) == (2, 1.5, 50 - RECORDS_MAX)
