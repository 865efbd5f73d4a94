"""The model with a router that dies: routing goes on, changes wait, and no client notices more than that."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.model import Flow
from tests.flow.world import Person


class FlowAndRouter(Flow):
    """The router dies and comes back at any time, and its last messages may be lost."""

    @rule(arriving=st.integers(0, 3))
    def kill_router(self, arriving: int) -> None:
        """Kill the router."""
        if self.node.router_lives:
            self.node.kill_router(arriving)
            self.moves.clear()

    @rule()
    def start_router(self) -> None:
        """Start the router again."""
        if not self.node.router_lives:
            self.node.start_router()

    def arrive(self) -> Person:
        """Connect a client once there is a router: until then, an acceptor that lacks a change reads nothing."""
        self.start_router()
        return super().arrive()

    def revive(self) -> None:
        """Start the router."""
        self.start_router()
        super().revive()
