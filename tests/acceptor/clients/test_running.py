"""A channel's running method: only with one does the channel run at gates."""

from __future__ import annotations

from acceptor.amqp.channel import Channel
from tests.simulator.joined.node import Node, open_channel


def test_only_a_running_method_waits_at_gates() -> None:
    with Node() as node:
        node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
        client = open_channel(node)
        channel = client.connection.channels[1]
        assert isinstance(channel, Channel)
        client.call("tx.select", 1)
        for _ in range(2):
            client.publish(1, b"m", routing_key="full")
            client.call("tx.commit", 1)
        assert channel.running is None and not channel.runs_at_gates()
        client.publish(1, b"m", routing_key="full")
        client.send("tx.commit", 1)
        node.settle()
        assert channel.running is not None and channel.runs_at_gates() and channel.gates
        client.call("channel.close", 1)
        assert channel.running is None and not channel.runs_at_gates() and not channel.gates
