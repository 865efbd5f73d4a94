"""The time at which an acceptor's clock was at 0."""

from __future__ import annotations

from acceptor.clients.clock_origin import ClockOrigin
from tests.simulator.joined.node import Node


def test_time_since_1970_is_that_of_the_loop_and_its_beginning() -> None:
    with Node() as node:
        state = node.core(0).state
        state.now, state.origin = 12.5, ClockOrigin(wall=1_000_000.25)
        assert state.clock() == 12.5
        assert state.time_us() == 1_000_012_750_000
