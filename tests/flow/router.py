"""The same with a router that dies: routing goes on, changes wait, and nobody notices more than that."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.model import Flow
from tests.flow.world import Person


class FlowAndRouter(Flow):
    """The router dies and comes back whenever, and what it said last may be lost."""

    @rule(heard=st.integers(0, 3))
    def kill_router(self, heard: int) -> None:
        if self.node.router_lives:
            self.node.kill_router(heard)
            self.moves.clear()

    @rule()
    def start_router(self) -> None:
        if not self.node.router_lives:
            self.node.start_router()

    def arrive(self) -> Person:
        """An acceptor that lacks a change reads nothing before there is a router again."""
        self.start_router()
        return super().arrive()

    def revive(self) -> None:
        self.start_router()
        super().revive()
