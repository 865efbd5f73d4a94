"""The terms on which a producer is held."""

from __future__ import annotations

import pytest

from acceptor.holding.holds import NOTIFIED_AGAIN_SECONDS
from tests.acceptor.holding.producers import MARKS, PARKING, held
from tests.raw import JAVA
from tests.simulator.joined.node import Node


@pytest.mark.parametrize("withheld", [False, True])
def test_confirms_are_withheld_only_as_a_means(withheld: bool) -> None:
    with Node() as node:
        client = held(node, "confirms, park" if withheld else "flow, park", JAVA, confirms=True)
        assert [event.delivery_tag for event in client.events[1] if event.name == "basic.ack"][-1] == 3 - withheld
        assert node.core(0).gates.queue_gates[node.queue("full").queue_id].withheld or not withheld


def test_a_policy_for_the_user_counts_before_the_queue() -> None:
    with Node() as node:
        node.policy("gentle", "^guest$", {"throttle": "blocked, park"}, apply_to="users")
        client = held(node, "flow, park, pause", JAVA, confirms=True)
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert "channel.flow" not in client.names(1)
        assert client.events[1][-1].delivery_tag == 3
        assert "connection.blocked" in client.names()


def test_a_changed_policy_is_followed_while_held() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.policy("p", "^full$", {"throttle": "park"})
        node.declare("full", **MARKS)
        client = node.connect()
        client.call("channel.open", 1)
        client.call("confirm.select", 1)
        for _ in range(3):
            client.publish(1, bytes(2 * PARKING), routing_key="full")
            node.settle()
        client.publish(1, bytes(2 * PARKING), routing_key="full")
        node.settle()
        assert client.socket.reads
        node.policy("p", "^full$", {"throttle": "park, pause"})
        node.settle()
        client.publish(1, b"", routing_key="full")
        node.settle()
        assert not client.socket.reads


def test_waiting_for_a_route_is_no_cause() -> None:
    """A held producer whose queue has room again may wait for the route of its next publish at that moment."""
    with Node() as node:
        client = held(node, "flow, park", JAVA, confirms=True)
        client.publish(1, b"", routing_key="full")
        node.settle()
        holds, gates = node.core(0).holding.holds, node.core(0).gates
        (channel,) = holds.held
        before = channel.held_by
        channel.gates[:] = [gates.routing]
        holds.recheck_cause_later(channel)
        holds.recheck_causes(node.now + 2 * NOTIFIED_AGAIN_SECONDS)
        assert channel.held_by is before and channel in holds.unsure
        channel.gates[:] = [gates.queue_gates[node.queue("full").queue_id]]
        holds.recheck_causes(node.now + 2 * NOTIFIED_AGAIN_SECONDS)
        assert channel.held_by is before and channel not in holds.unsure
