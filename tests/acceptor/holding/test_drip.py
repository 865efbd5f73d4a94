"""The drip: how much is read from a paused socket, and when."""

from __future__ import annotations

import pytest

from acceptor.holding.drip import RELIEF_BYTES
from acceptor.questions import questions
from tests.acceptor.holding.producers import PARKING, PIKA, paused
from tests.simulator.joined.node import Node, open_channel


@pytest.mark.parametrize(
    ("parked", "overfull", "nbytes"),
    [(9 * PARKING, False, 0), (2 * PARKING, True, RELIEF_BYTES), (9 * PARKING, True, 0)],
)
def test_a_receive_buffer_that_is_overfull_is_relieved_within_a_bound(parked: int, overfull: bool, nbytes: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, parked, PIKA)
        client.socket.overfull = overfull
        node.core(0).holding.drip.arrived(client.connection)
        node.core(0).holding.parking.read_paused(node.core(0).state.now)
        assert client.socket.drips == nbytes


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 60), (3, 1), (60, 20), (600, 60)])
def test_a_client_that_cannot_send_its_heartbeats_is_read_as_often(heartbeat: int, seconds: int) -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, 9 * PARKING, "aiormq", heartbeat)
        parking = node.core(0).holding.parking
        parking.read_paused(node.now + seconds - 0.5)
        assert not client.socket.drips
        parking.read_paused(node.now + seconds)
        assert client.socket.drips == 256 * 1024


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 10), (6, 3)])
def test_a_paused_client_is_sent_heartbeats_though_none_was_agreed(heartbeat: int, seconds: int) -> None:
    """A killed client is noticed only by the answer of its kernel."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = paused(node, 9 * PARKING, PIKA, heartbeat)
        free = node.connect()
        before = client.heartbeats
        for passed, beats in ((seconds - 1, 0), (1, 1)):
            node.now += passed
            node.core(0).state.now = node.now
            node.core(0).tick()
            node.settle()
            assert client.heartbeats - before == beats
        assert free.heartbeats == 0


@pytest.mark.parametrize("taken_by", ["get", "consumer"])
def test_acks_of_a_transaction_may_make_room_so_its_commit_is_read(taken_by: str) -> None:
    """The client has acked all it was sent, and consumes no more: the queue stays full until the commit."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
        client = node.connect(properties={"product": PIKA})
        client.call("channel.open", 1)
        client.call("channel.open", 2)
        client.call("tx.select", 2)
        for _ in range(2):
            client.publish(1, b"", routing_key="full")
        node.settle(1)
        if taken_by == "get":
            for _ in range(2):
                client.send("basic.get", 2, queue="full")
        else:
            client.call("basic.consume", 2, queue="full", consumer_tag="c")
            client.call("basic.cancel", 2, consumer_tag="c")
        node.settle(1)
        client.send("basic.ack", 2, delivery_tag=2, multiple=True)
        for _ in range(2):
            client.publish(1, bytes(20 * PARKING), routing_key="full")
        node.settle(1)
        assert not client.socket.reads
        client.send("tx.commit", 2)
        node.settle(3)
        client.take("tx.commit-ok", 2)
        assert client.socket.reads


def test_who_begins_to_consume_while_paused_is_read_for_its_acks() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.declare("free")
        other = open_channel(node)
        for _ in range(3):
            other.publish(1, b"", routing_key="free")
        client = paused(node, 9 * PARKING, "aiormq")
        (all_held, _), (entangled, _) = (questions(node.core(0))[name] for name in ("held", "entangled"))
        assert len(all_held()) == len(entangled()) == 1
        client.send("basic.qos", 1, prefetch_count=1)
        client.send("basic.consume", 1, queue="free")
        node.settle(rechecks=1)
        assert "basic.consume-ok" not in client.names(1)
        node.now += 60
        node.settle(rechecks=1)
        for tag in (1, 2, 3):
            assert client.take("basic.deliver", 1).delivery_tag == tag
            client.send("basic.ack", 1, delivery_tag=tag)
            node.settle(rechecks=1)
        assert not client.connection.channels[1].unacked.total and not client.socket.reads
        party = {"party": "guest at 127.0.0.1", "settles": True}
        assert entangled() == [row | party for row in all_held()] != []
