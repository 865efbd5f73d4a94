"""Parked publishes that outlive their channel: they still reach their queue, within the share of their user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.budgets.quotas import ORPHAN_BYTES
from acceptor.clients.channel_stage import DETACHED
from tests.shard.steps import drain, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

KIB = 1024
SHARE = {"parking_bytes": 64 * KIB, "parked_memory": 16 * KIB, "spool_limit": 0, "user_percent": 100}
MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}
FULL = [b"1", b"2", b"3"]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={**SHARE, "vhost_percent": 100}) as node:
        node.declare("full", **MARKS)
        publish(open_channel(node), "full", *FULL)
        yield node


def parking(node: Node, *bodies: bytes, confirms: bool = False, **options: Any) -> Client:
    """Return a client with parked publishes."""
    client = open_channel(node)
    if confirms:
        client.call("confirm.select", 1)
    publish(client, "full", *bodies, **options)
    assert sum(item.count for item in client.connection.channels[1].inbox) == len(bodies)
    return client


def taken(node: Node) -> list[bytes]:
    """Read all messages of the queue; return their bodies."""
    reader, found = open_channel(node), list[bytes]()
    while bodies := drain(reader, "full"):
        found += bodies
        node.settle(1)
    return found


@pytest.mark.parametrize("ends", ["connection lost", "connection closed", "channel closed"])
def test_what_a_channel_has_parked_reaches_its_queue_after_its_end(node: Node, ends: str) -> None:
    client = parking(node, b"4", b"5", b"6", b"7")
    core = node.core(0)
    kept = core.quotas.kept
    if ends == "connection lost":
        client.lose()
    elif ends == "connection closed":
        client.call("connection.close")
        client.lose()
    else:
        client.call("channel.close", 1, code=200)
    node.settle(1)
    (heir,) = core.orphans.channels
    assert heir.stage is DETACHED and heir.gates and core.quotas.kept >= kept + ORPHAN_BYTES
    assert taken(node) == [*FULL, b"4", b"5", b"6", b"7"]
    node.settle(1)
    assert not core.orphans.channels and core.quotas.kept == 0


def test_they_are_neither_confirmed_nor_returned(node: Node) -> None:
    """Another channel may have the same number by then."""
    client = parking(node, b"4", b"5", confirms=True, mandatory=True)
    client.call("channel.close", 1, code=200)
    client.call("channel.open", 1)
    client.call("confirm.select", 1)
    publish(client, "full", b"6")
    node.ask("queue_delete", queue_id=node.queue("full").queue_id)
    node.settle(1)
    assert [(event.name, event.delivery_tag) for event in client.events[1]] == [("basic.ack", 1)]
    assert not node.core(0).orphans.channels


def test_beyond_the_share_of_the_user_they_are_dropped_and_the_log_says_how_many(node: Node) -> None:
    parking(node, *[bytes(KIB)] * 10).lose()
    second = parking(node, *[bytes(KIB)] * 12)
    second.lose()
    core = node.core(0)
    (line,) = (line for line in node.logs if line["event"] == "parked publishes dropped with their connection")
    assert (line["connection"], line["messages"], line["log_level"]) == (second.connection.id, 12, "warning")
    assert line["bytes"] > 12 * KIB
    assert len(core.orphans.channels) == 1
    assert [len(body) for body in taken(node)] == [1, 1, 1] + [KIB] * 10
    node.settle(1)
    assert core.quotas.kept == 0


def test_a_close_is_late_while_what_is_parked_cannot_be_kept(node: Node) -> None:
    client, other = parking(node, b"4"), parking(node, *[bytes(KIB)] * 16)
    client.socket.resume_reading()
    client.send("channel.close", 1, code=200)
    client.read()
    core, channel = node.core(0), client.connection.channels[1]
    assert list(core.orphans.late_closes) == [channel]
    node.settle(1)
    assert "channel.close-ok" not in client.names(1) and list(core.orphans.late_closes) == [channel]
    other.lose()
    node.settle()
    core.orphans.forget_empty()
    reader = open_channel(node)
    while core.quotas.kept > 8 * KIB:
        assert drain(reader, "full")
        node.settle(1)
    node.settle(1)
    assert "channel.close-ok" in client.names(1) and not core.orphans.late_closes
