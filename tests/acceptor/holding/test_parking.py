"""The amount parked for held producers."""

from __future__ import annotations

import pytest

from acceptor.clients.parked import ParkedRun
from acceptor.holding.holds import NOTIFIED_AGAIN_SECONDS
from penstock.batch.arena import BLOCK_BYTES, Arena
from penstock.batch.batch_cy import BatchBuilder
from tests.acceptor.holding.producers import MARKS, PARKING, PIKA, held, paused
from tests.living import living
from tests.simulator.joined.node import Node


@pytest.mark.usefixtures("without_collector")
def test_what_a_connection_had_sent_goes_with_it() -> None:
    """Parked publishes, and one that was only half received."""
    with Node(flow={"parking_bytes": PARKING, "parked_memory": 0, "spool_limit": 0}) as node:
        client = paused(node, 2 * PARKING, PIKA)
        client.socket.reads = True
        client.publish(1, bytes(PARKING), routing_key="full")
        client.unread[0] = client.unread[0]._replace(data=client.unread[0].data[:-PARKING])
        node.settle(1)
        assert client.connection.kept.parked
        assert living(BatchBuilder)
        client.lose()
        node.settle(1)
        assert (living(BatchBuilder), living(ParkedRun)) == (0, 0)


def test_what_is_held_leaves_the_arena_to_what_passes() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        arena = node.core(0).state.arena = Arena(3 * BLOCK_BYTES, shards=1, acceptors=1)
        for _ in range(4):
            paused(node, 64 * PARKING, PIKA)
        blocks = [arena.lend() for _ in range(4)]
        assert [block is None for block in blocks] == [False, False, False, True]


@pytest.mark.parametrize(("throttle", "budgets"), [("pause", 0), ("park, pause", 1), ("park", 16), ("auto", 1)])
def test_how_much_is_parked_before_the_pause(throttle: str, budgets: int) -> None:
    """Whatever the choice of means, parking is bounded."""
    with Node(flow={"parking_bytes": PARKING}) as node:
        client = held(node, throttle, {"product": PIKA})
        while client.socket.reads:
            client.publish(1, bytes(500), routing_key="full")
            node.settle()
        parked = client.connection.kept.parked
        assert budgets * PARKING < parked <= budgets * PARKING + PARKING
        assert node.core(0).holding.parking.budget(client.connection) == budgets * PARKING


def test_a_connection_is_paused_when_its_parked_runs_take_all_that_may_be_kept() -> None:
    """Small publishes to two queues by turns, each a run of its own: their contents are next to nothing."""
    most = 64 * 1024
    with Node(flow={"parking_bytes": 8 * most, "held_bytes": most}) as node:
        client = held(node, "park", {"product": PIKA})
        node.declare("other", **MARKS)
        for number in range(100):
            client.publish(1, b"", routing_key=("full", "other")[number % 2])
            node.settle()
        kept = client.connection.kept
        assert not client.socket.reads
        assert kept.parked < most < kept.held <= most + client.largest_charge


def test_a_connection_is_read_again_when_its_next_cause_lets_it_park_more() -> None:
    with Node(flow={"parking_bytes": PARKING}) as node:
        node.declare("pausing", **MARKS, **{"x-throttle": "blocked, pause"})
        node.declare("parking", **MARKS)
        client, consumer = node.connect(), node.connect()
        for each in (client, consumer):
            each.call("channel.open", 1)
        for queue in ("parking", "pausing"):
            for _ in range(3):
                client.publish(1, b"", routing_key=queue)
                node.settle(1)
        for queue in ("pausing", "parking"):
            client.publish(1, b"small", routing_key=queue)
        node.settle(1)
        assert not client.socket.reads
        consumer.call("basic.consume", 1, queue="pausing", no_ack=True)
        node.now += NOTIFIED_AGAIN_SECONDS
        node.core(0).holding.refresh_notices(node.now)
        node.settle()
        channel = client.connection.channels[1]
        assert channel.held_by is not None and "'parking'" in str(channel.held_by)
        assert client.socket.reads and channel.inbox
