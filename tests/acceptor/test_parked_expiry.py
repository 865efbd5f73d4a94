"""Messages that expire while they are parked."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptor.clients.spool import Spool
from tests.shard.steps import drain, pass_ms
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}
INCARNATION = 1000


def held(node: Node, **options: str) -> Client:
    """Return a client with three messages in the queue that do not expire, and two parked ones that do."""
    client = open_channel(node)
    for body in (b"1", b"2", b"3"):
        client.publish(1, body, routing_key="full")
    node.settle()
    for body in (b"4", b"5"):
        client.publish(1, body, routing_key="full", **options)
    node.settle()
    assert client.connection.channels[1].inbox
    return client


@pytest.mark.parametrize(("waited", "alive"), [(INCARNATION // 2, True), (2 * INCARNATION, False)])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_messages_own_expiration_runs_while_it_is_parked(
    tmp_path: Path, waited: int, alive: bool, on_disk: bool
) -> None:
    with Node() as node:
        node.core(0).state.spool = Spool(tmp_path, 0 if on_disk else 1 << 20, 1 << 20)
        node.declare("full", **MARKS)
        held(node, expiration=str(INCARNATION))
        pass_ms(node, waited)
        taker = open_channel(node)
        assert drain(taker, "full") == [b"1", b"2", b"3"] + [b"4", b"5"] * alive
        assert node.core(0).holding.parking.parked_bytes == 0


def test_what_is_left_of_it_counts_in_the_queue() -> None:
    with Node() as node:
        node.declare("full", **MARKS)
        held(node, expiration=str(INCARNATION))
        pass_ms(node, INCARNATION // 2)
        node.ask_purge("full") if hasattr(node, "ask_purge") else open_channel(node).call(
            "queue.purge", 1, queue="full"
        )
        node.settle()
        assert node.state("full").contents.ready == 2
        pass_ms(node, INCARNATION // 2 - 1)
        assert node.state("full").contents.ready == 2
        pass_ms(node, 2)
        assert node.state("full").contents.ready == 0


def test_the_ttl_of_the_queue_runs_too_and_who_expires_is_dead_lettered() -> None:
    with Node() as node:
        node.declare("dead")
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        node.declare("full", **MARKS, **{"x-message-ttl": INCARNATION}, **dead_letters)
        client, consumer = open_channel(node), open_channel(node)
        consumer.call("basic.qos", 1, prefetch_count=3)
        consumer.call("basic.consume", 1, queue="full")
        for number in range(5):
            client.publish(1, b"%d" % number, routing_key="full")
            node.settle()
        assert consumer.names(1).count("basic.deliver") == 3
        pass_ms(node, 2 * INCARNATION)
        consumer.send("basic.ack", 1, delivery_tag=3, multiple=True)
        node.settle(rechecks=2)
        assert consumer.names(1).count("basic.deliver") == 3
        assert drain(client, "dead") == [b"3", b"4"]
