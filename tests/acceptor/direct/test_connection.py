"""The end of direct connections."""

from __future__ import annotations

from tests.acceptor.direct.steps import get, publish
from tests.simulator.joined.node import Node


def test_nothing_is_left_of_a_direct_connection(node: Node) -> None:
    node.declare("q")
    node.settle()
    core = node.core(0)
    for _ in range(3):
        publish(node, "q")
        get(node, "q", 1)
        publish(node, "k", exchange="none")
    assert not core.state.connections
    assert not core.budgets.outputs.gets.under_way.users and not core.budgets.outputs.gets.lines
    assert not core.state.sharing
    links = [link for shard in range(2) for link in node.shard(shard).state.links.values()]
    assert not [consumer for link in links for consumer in link.consumers.values()]
