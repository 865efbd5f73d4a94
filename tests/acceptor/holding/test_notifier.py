"""Notices of a stop to clients."""

from __future__ import annotations

import pytest

from tests.acceptor.holding.producers import PIKA, held
from tests.raw import JAVA
from tests.simulator.joined.node import Node


@pytest.mark.parametrize(
    ("throttle", "properties", "flow"),
    [
        ("auto", JAVA, True),
        ("auto", {"product": PIKA}, False),
        ("flow, park", {"product": PIKA}, True),
        ("flow, park", JAVA, True),
        ("flow, park", {"product": "aiormq"}, False),
        ("flow, park", {"product": "amqplib"}, False),
        ("flow, park", {"product": "Bunny"}, False),
        ("blocked, park, pause, confirms", JAVA, False),
    ],
)
def test_channel_flow_as_chosen_but_never_to_those_that_it_breaks(
    throttle: str, properties: dict[str, str], flow: bool
) -> None:
    with Node() as node:
        client = held(node, throttle, properties)
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert ("channel.flow" in client.names(1)) == flow
        assert ("connection.blocked" in client.names()) == ("blocked" in throttle or throttle == "auto")


def test_the_reason_is_brought_up_to_date_once_in_a_while() -> None:
    with Node() as node:
        client = held(node, "auto", {"product": PIKA})
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert client.take("connection.blocked").reason == "queue 'full' in vhost '/': 3 of 2 messages, resume at 0"
        consumer = node.connect()
        consumer.call("channel.open", 1)
        consumer.call("basic.get", 1, queue="full", no_ack=True)
        for seconds in (20, 15, 100):
            node.now += seconds
            node.core(0).state.now = node.now
            node.core(0).holding.refresh_notices(node.now)
            node.settle()
        again = [event.reason for event in client.events[0] if event.name == "connection.blocked"]
        assert again == ["queue 'full' in vhost '/': 2 of 2 messages, resume at 0"]
        assert "connection.unblocked" not in client.names()
