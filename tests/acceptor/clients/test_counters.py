"""An acceptor's counters of its clients' channels, publishes and confirms."""

from __future__ import annotations

from tests.simulator.joined.node import Node, open_channel


def test_published_messages_are_counted_and_those_of_them_that_were_confirmed() -> None:
    with Node() as node:
        node.declare("q")
        plain, confirming = open_channel(node), open_channel(node)
        confirming.call("confirm.select", 1)
        for client, count in (plain, 2), (confirming, 3):
            for _ in range(count):
                client.publish(1, b"m", routing_key="q")
        node.settle()
        counters = node.core(0).state.counters
        assert (counters.open_channels, counters.published, counters.confirmed) == (2, 5, 3)
        plain.lose()
        node.settle()
        assert (counters.open_channels, counters.published) == (1, 5)
