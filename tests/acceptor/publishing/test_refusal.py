"""Publishes refused because their producer was held as long as allowed: nacked, or returned with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptor.gates.queue_gate import QueueGate
from acceptor.publishing.refusal import reasons, with_headers
from penstock.amqp.properties import PROPERTIES_AT, decode_properties, encode_properties
from penstock.amqp.splice import number, text
from penstock.batch.batch_cy import HAS_HEADERS, HAS_PRIORITY, BatchBuilder
from penstock.bus import MESSAGE_WEIGHT
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from tests.acceptor.holding.test_escalation import (
    FULL,
    MARKS,
    PARKING,
    confirmed,
    held,
    later,
    open_one,
    publish,
    rung,
    take,
)
from tests.simulator.joined.node import Node

SLOT = 5


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": PARKING}) as node:
        yield node


@contextmanager
def full(directory: Path, marks: Marks, name: str = "orders") -> Iterator[QueueGate]:
    """Yield the gate of a queue with 7 messages, which take 700 bytes."""
    with Gauges.create(directory / "gauges", epoch=1, acceptors=1, shards=1, queues=8, pid=os.getpid()) as gauges:
        gauges.queue_open(SLOT, 1, "/", name, 1)
        gauges.queue_write(SLOT, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, whole_bytes=700)
        yield QueueGate(gauges, 1, 1, SLOT, "/", name, QueueLimits(None, None, "flow", marks))


COUNT = {"x-flow-count": 7, "x-flow-stop-count": 6, "x-flow-resume-count": 2}
SIZE = {"x-flow-size": 700, "x-flow-stop-size": 600, "x-flow-resume-size": 0}


@pytest.mark.parametrize(
    ("marks", "numbers"),
    [(Marks(6, 2), COUNT), (Marks(0, 0, 600, 0), SIZE), (Marks(6, 2, 600, 0), COUNT | SIZE), (Marks(), {})],
)
def test_the_reasons_have_the_numbers_of_the_marks_that_are_set(
    tmp_path: Path, marks: Marks, numbers: dict[str, int]
) -> None:
    with full(tmp_path, marks) as queue_gate:
        expected = {name.encode(): number(value) for name, value in numbers.items()}
        assert reasons(queue_gate, 1.5) == {
            b"x-flow-queue": text(b"orders"), b"x-flow-wait": number(1500), **expected,
        }  # fmt: skip


def test_the_name_of_a_queue_is_given_as_the_bytes_of_its_declaration(tmp_path: Path) -> None:
    with full(tmp_path, Marks(6, 2), "caf\udce9") as queue_gate:
        assert reasons(queue_gate, 0)[b"x-flow-queue"] == text(b"caf\xe9")


def test_headers_are_added_and_all_else_of_the_messages_is_unchanged() -> None:
    builder = BatchBuilder()
    sent = [
        ({"headers": {"mine": 1, "x-flow-wait": 9}, "priority": 3, "message_id": "a"}, HAS_HEADERS | HAS_PRIORITY),
        ({"delivery_mode": 2}, 0),
        ({}, 0),
        ({}, 0),
    ]
    for at, (properties, flags) in enumerate(sent):
        header = b"\0\x3c\0\0" + (5).to_bytes(8, "big") + encode_properties(properties)
        builder.add(b"\1x\1k", header, b"body%d" % at, flags)
    returned = with_headers(builder.finish(), 0, 3, {b"x-flow-wait": number(100)})
    assert returned.count == 3
    for at, (properties, flags) in enumerate(sent[:3]):
        address, header, body = returned.record(at)
        assert (address, body, header[:PROPERTIES_AT]) == (b"\1x\1k", b"body%d" % at, b"\0\x3c\0\0\0\0\0\0\0\0\0\5")
        headers = {**properties.get("headers", {}), "x-flow-wait": 100}
        assert decode_properties(header[PROPERTIES_AT:]) == {**properties, "headers": headers}
        assert returned.flags(at) == flags | HAS_HEADERS


def test_a_producer_without_confirms_learns_nothing_of_what_is_not_mandatory(node: Node) -> None:
    client = held(node, "reject", parked=1, confirms=False)
    later(node, 0.1)
    publish(client, 2)
    assert node.core(0).holding.escalations.refused_total == 3
    assert not {"basic.return", "basic.nack", "basic.ack"} & {*client.names(1)}
    publish(client, 1, mandatory=True)
    assert client.names(1).count("basic.return") == 1


# Refusals of whole channels


def test_what_is_rejected_is_nacked_and_what_the_queue_has_is_confirmed(node: Node) -> None:
    client = held(node, "park 1 s, reject")
    assert confirmed(client) == dict.fromkeys(range(1, FULL), True)
    later(node, 1)
    assert confirmed(client) == {**dict.fromkeys(range(1, FULL + 1), True), **dict.fromkeys(range(6, 9), False)}
    publish(client, 2)
    assert confirmed(client)[9] is confirmed(client)[10] is False
    assert node.core(0).holding.escalations.refused_total == 5
    assert client.connection.kept.parked == 0 and client.socket.reads
    assert "connection.unblocked" not in client.names()
    take(node, 3)
    later(node, 0.1)
    assert "connection.unblocked" in client.names()
    publish(client, 1)
    assert confirmed(client)[11] is True


def test_a_returned_message_says_why(node: Node) -> None:
    node.declare("q", **MARKS, **{"x-hold": "reject"})
    client = open_one(node)
    publish(client, FULL)
    client.publish(1, b"body", routing_key="q", mandatory=True, headers={"mine": 7}, delivery_mode=2)
    node.settle()
    later(node, 0.1)
    returned = client.take("basic.return", 1)
    assert (returned.code, returned.routing_key, returned.body) == (311, "q", b"body")
    assert returned.text == "CONTENT_TOO_LARGE - queue 'q' in vhost '/': 5 of 4 messages, resume at 2"
    headers = returned.properties["headers"]
    assert returned.properties["delivery_mode"] == 2
    wait = headers.pop("x-flow-wait")
    assert 100 <= wait <= 60_000
    assert headers == {
        "mine": 7, "x-flow-queue": "q", "x-flow-count": 5, "x-flow-stop-count": 4, "x-flow-resume-count": 2,
    }  # fmt: skip
    assert confirmed(client)[FULL + 1] is False


def test_how_long_to_wait_at_a_mark_in_bytes_is_what_it_takes_to_get_down_to_it(node: Node) -> None:
    """One message leaves each second, and two more have to leave."""
    whole = MESSAGE_WEIGHT + 1 + 2 + 14 + 10  # exchange, routing key, header and body
    node.declare("q", **{"qpid.flow_stop_size": 10 * whole, "qpid.flow_resume_size": 8 * whole, "x-hold": "reject"})
    client = open_one(node)
    publish(client, 12)
    later(node, 0.1)
    assert rung(client) == "reject"
    take(node, 1)
    later(node, 0.9)
    assert node.state("q").depth == 10
    publish(client, 1, mandatory=True)
    headers = client.take("basic.return", 1).properties["headers"]
    assert (headers["x-flow-size"], headers["x-flow-resume-size"]) == (10 * whole, 8 * whole)
    assert 1_500 <= headers["x-flow-wait"] <= 2_500


def test_other_queues_are_not_refused(node: Node) -> None:
    node.declare("free")
    client = held(node, "park 1 s, reject", parked=1)
    client.publish(1, b"behind", routing_key="free")
    node.settle()
    assert node.state("free").depth == 0
    later(node, 1)
    assert node.state("free").depth == 1
    client.publish(1, b"and on", routing_key="free")
    node.settle()
    assert node.state("free").depth == 2
    assert rung(client) == "reject"
