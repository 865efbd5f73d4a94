"""The measurements of a shard and its node each second: memory, the lag of the loop, the time of commits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from penstock.memory.gauges import Gauges
from penstock.node.clock import now_us
from penstock.process.node_memory import NodeMemory
from penstock.process.process_memory import IdleMemory
from penstock.process.recent_samples import LoopLag, RecentSamples
from shard.turns.room import PROCESSES

if TYPE_CHECKING:
    from shard.turns.gate import Gate
    from shard.turns.state import ShardState


class Measures:
    """The measures of one shard. `commit_us` are the times of its commits, and `limit` the memory of all processes of
    the node, in bytes.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, gauges: Gauges, state: ShardState, gate: Gate, commit_us: RecentSamples,
        limit: int,
    ) -> None:  # fmt: skip
        self.gauges = gauges
        self.state = state
        self.gate = gate
        self.commit_us = commit_us
        self.lag = LoopLag(loop)
        self.node_memory = NodeMemory(gauges)
        self.idle_memory = IdleMemory(limit)

    def measure(self) -> None:
        """Measure, have the gate decide by the memory of the node's processes, and publish the figures."""
        with suppress(OSError, psutil.Error):  # too many files are open
            self.idle_memory.give_back(self.state.weight, self.gate.room.is_scarce(PROCESSES))
        self.gate.update_processes(self.node_memory.measure(), now_us())
        self.gauges.measures_write(
            "shard", self.state.index, self.lag.samples.percentile(50), self.lag.samples.percentile(99),
            self.commit_us.percentile(99), self.gate.stored,
        )  # fmt: skip
