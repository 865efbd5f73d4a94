"""Operators' stops as gates: which publishes each concerns, and how several stops add up."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.gates.permissions import Access
from acceptor.gates.rights import InternalRights
from acceptor.gates.stops import StopGate
from router.model.records import Queue, Stop
from router.model.topology import Topology
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

QUEUE = Queue("/", "orders", 1, 5, 0, True, False, None, {}, [], [])
OTHER = Queue("/", "bills", 2, 6, 0, True, False, None, {}, [], [])


def stop(number: int = 1, **named: Any) -> Stop:
    everything = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))
    return Stop(number=number, **{**everything, **named}, author="ann", reason="", since=0.0, until=None)


def concerns(gate: StopGate, keys: tuple[str, ...] = ("eu.order",), queues: tuple[Queue, ...] = (QUEUE, OTHER)) -> bool:
    """Whether a gate stops a publish of guest to the exchange `x` of the vhost "/"."""
    return gate.concerns(Access(InternalRights(Topology().users, "guest"), "/"), "x", keys, queues)


@pytest.mark.parametrize(
    ("named", "stopped"),
    [
        ({}, True),
        ({"vhost": "/"}, True),
        ({"vhost": "other"}, False),
        ({"user": "guest"}, True),
        ({"user": "ann"}, False),
        ({"exchange": "x"}, True),
        ({"exchange": ""}, False),
        ({"queue": "bills"}, True),
        ({"queue": "bill"}, False),
        ({"key": "eu.order"}, True),
        ({"key": "eu.*"}, True),
        ({"key": "#"}, True),
        ({"key": "us.*"}, False),
        ({"key": "eu"}, False),
        ({"vhost": "/", "exchange": "x", "key": "eu.#", "queue": "orders", "user": "guest"}, True),
        ({"vhost": "/", "exchange": "x", "key": "eu.#", "queue": "orders", "user": "ann"}, False),
        ({"connection": "0.1.1"}, True),  # the route decides whose publishes wait there
    ],
)
def test_a_stop_concerns_publishes_that_match_everything_it_names(named: dict[str, Any], stopped: bool) -> None:
    assert concerns(StopGate(stop(**named))) is stopped


def test_any_of_several_routing_keys_is_enough() -> None:
    gate = StopGate(stop(key="eu.*"))
    assert concerns(gate, keys=("us.order", "eu.order"))
    assert not concerns(gate, keys=("us.order", "eu.order.late")) and not concerns(gate, keys=())


def test_a_stop_of_a_queue_concerns_no_publish_without_queues() -> None:
    assert not concerns(StopGate(stop(queue="orders")), queues=())
    assert concerns(StopGate(stop()), queues=())


def test_it_is_described_as_the_operator_wrote_it() -> None:
    assert str(StopGate(stop())) == "stopped by ann"


def publish(client: Client, *keys: str) -> None:
    for key in keys:
        client.publish(1, b"m", routing_key=key)
    client.node.settle()


def test_a_publish_that_two_stops_concern_waits_for_both_to_be_lifted() -> None:
    nothing = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))
    of_queue, of_user = {**nothing, "vhost": "/", "queue": "orders"}, {**nothing, "user": "guest"}
    with Node() as node:
        for name in ("orders", "bills"):
            node.declare(name)
        for named in (of_queue, of_user):
            node.command("flow_stop", **named, author="ann", reason="", seconds=None)
        node.settle()
        client = open_channel(node)
        publish(client, "orders")
        channel = client.connection.channels[1]
        assert len(channel.gates) == 2 and channel.held_by is not None
        node.command("flow_start", **of_user)
        node.settle()
        other = open_channel(node)
        publish(other, "bills")
        assert (node.state("orders").depth, node.state("bills").depth) == (0, 1)
        node.command("flow_start", **of_queue)
        node.settle()
        assert node.state("orders").depth == 1 and channel.held_by is None
        assert not node.core(0).gates.stops
