"""The figures that a shard publishes about itself each second."""

from __future__ import annotations

from penstock.process.recent_samples import RecentSamples
from shard.measures import Measures
from tests.shard.store.test_flushes import Loop
from tests.simulator.joined.node import Node


def test_the_figures_are_in_the_gauges_and_the_gate_knows_the_memory_of_the_node() -> None:
    with Node() as node:
        core, loop, commits = node.shard(0), Loop(), RecentSamples()
        commits.add(1234)
        measures = Measures(loop, node.gauges, core.state, core.gate, commits, 1 << 30)
        measures.lag.samples.add(56)
        measures.measure()
        found = node.gauges.measures_read("shard", 0)
        assert (found.loop_lag_p50_us, found.loop_lag_p99_us, found.commit_p99_us) == (56, 56, 1234)
        loop.close()
