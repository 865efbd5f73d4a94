"""Notices to a client: its connection is blocked once, for as many channels as were notified."""

from __future__ import annotations

from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}


def test_a_connection_is_blocked_for_each_of_its_channels_that_was_told() -> None:
    with Node() as node:
        node.declare("full", **MARKS)
        client = open_channel(node)
        client.call("channel.open", 2)
        reports = client.connection.notices
        assert reports.blocked_channels == 0 and reports.reason == ""
        for number in (1, 2):
            for _ in range(4):
                client.publish(number, b"m", routing_key="full")
            node.settle()
            assert client.connection.channels[number].notices.blocked
            assert reports.blocked_channels == number
        assert client.names() == ["connection.blocked"]
        assert reports.reason == str(client.connection.channels[1].held_by)
        other = open_channel(node)
        while any(each.inbox or each.gates for each in client.connection.channels.values()):
            other.call("queue.purge", 1, queue="full")
            node.settle(rechecks=1)
        assert reports.blocked_channels == 0 and not any(
            each.notices.blocked for each in client.connection.channels.values()
        )


def test_a_channel_that_channel_flow_has_stopped_is_told_so_until_it_may_go_on() -> None:
    with Node() as node:
        node.declare("full", **MARKS)
        client = open_channel(node, properties={"product": "RabbitMQ", "platform": "Java"})
        reports = client.connection.channels[1].notices
        assert not reports.flow and not reports.compliance.due
        for _ in range(4):
            client.publish(1, b"m", routing_key="full")
        node.settle()
        assert reports.flow and reports.compliance.due == 1 and reports.early is None
