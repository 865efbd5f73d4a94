"""Memory kept for a connection: it grows while publishes of the client wait, and returns to nothing."""

from __future__ import annotations

from acceptor.budgets.quotas import RUN_BYTES
from acceptor.clients.kept import Kept
from tests.simulator.joined.node import Node, open_channel


def figures(kept: Kept) -> dict[str, int]:
    return {name: getattr(kept, name) for name in Kept.__slots__}


def test_nothing_is_kept_for_a_connection_that_leaves_nothing_waiting() -> None:
    with Node() as node:
        node.declare("full", **{"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0})
        client, other = open_channel(node), open_channel(node)
        kept = client.connection.kept
        nothing = figures(Kept())
        assert figures(kept) == nothing and not any(nothing.values())
        for _ in range(4):
            client.publish(1, b"m", routing_key="full")
            node.settle()
        assert 0 < kept.parked <= kept.held - RUN_BYTES
        while kept.parked:
            other.call("queue.purge", 1, queue="full")
            node.settle(rechecks=1)
        assert figures(kept) == nothing


def test_publishes_of_a_transaction_are_kept_until_its_commit() -> None:
    with Node() as node:
        node.declare("q")
        client = open_channel(node)
        client.call("tx.select", 1)
        client.publish(1, bytes(1000), routing_key="q")
        node.settle()
        assert client.connection.kept.uncommitted >= 1000
        client.call("tx.commit", 1)
        assert client.connection.kept.uncommitted == 0
