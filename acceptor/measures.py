"""The measurements of an acceptor each second: the lag of its loop, its idle memory, the sums of flow control."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.process.process_memory import IdleMemory
from penstock.process.recent_samples import LoopLag

if TYPE_CHECKING:
    from acceptor.core import AcceptorCore


class Measures:
    """The measures of one acceptor. `limit` is the memory of all processes of the node, in bytes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, acceptor: AcceptorCore, limit: int) -> None:
        self.acceptor = acceptor
        self.lag = LoopLag(loop)
        self.idle_memory = IdleMemory(limit)

    def measure(self) -> None:
        """Give idle memory back to the system, and publish the figures if the gauges are this incarnation's."""
        self.idle_memory.give_back(self.acceptor.parked_in_memory())
        state = self.acceptor.state
        if state.has_place():
            lags = self.lag.samples
            state.gauges.measures_write("acceptor", state.index, lags.percentile(50), lags.percentile(99), 0, 0)
            self.acceptor.write_flow_sums()
