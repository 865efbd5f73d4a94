"""A shard's files about flow control: gathered records are written once, and open stops outlive the run of the node."""

from __future__ import annotations

from pathlib import Path

from penstock.files.record_file import read_records, records_path
from shard.flow.flow_files import FlowFiles
from shard.queue.saturation import Stop
from tests.simulator.joined.node import Node


def test_what_is_gathered_is_written_once(tmp_path: Path) -> None:
    with Node() as node:
        node.declare("q")
        node.settle()
        core = node.shard(0)
        files = FlowFiles(tmp_path, 0, core.flow, core.events)
        core.flow.deadlocked(node.state("q"), "a circle", "none", core.state.now)
        for _ in range(2):
            files.write_gathered()
        incidents = list(read_records(records_path(tmp_path, "incidents", "shard", 0)))
        assert [each["cause"] for each in incidents] == ["a circle"]
        assert not core.flow.incidents and not core.events.records


def test_stops_that_are_not_over_are_known_to_the_next_run(tmp_path: Path) -> None:
    with Node() as node:
        id = node.declare("q").queue_id
        node.settle()
        core, queue = node.shard(0), node.state("q")
        queue.saturation.continue_stop(Stop(5, 20, 200))
        core.flow.stopped[id] = queue
        FlowFiles(tmp_path, 0, core.flow, core.events).keep_open_stops(0)
        core.flow.earlier = {}
        FlowFiles(tmp_path, 0, core.flow, core.events)
        assert core.flow.earlier == {id: Stop(5, 20, 200)}
