"""A queue's move at an acceptor: its stages, and the fate of deliveries, settlements and requests meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.moving.move_stage import MoveStage
from acceptor.moving.moving import Away
from penstock.bus.to_acceptor import Fenced, Opened
from penstock.bus.to_shard import Fence, Get
from tests.shard.steps import drain, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("q", shard=0)
        node.settle()
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    """Return a client that has two unacked messages of the queue, which has two more."""
    publisher, client = open_channel(node), open_channel(node)
    client.call("basic.qos", 1, prefetch_count=2)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(publisher, "q", b"1", b"2", b"3", b"4")
    assert client.names(1).count("basic.deliver") == 2
    return client


def begin(node: Node) -> list[dict[str, Any]]:
    """Begin the move, and have the acceptor learn of it."""
    results = node.begin_move("q", 1)
    acceptor = node.acceptors[0]
    assert acceptor is not None
    while node.change(acceptor):
        pass
    return results


def fence(node: Node) -> None:
    """Have the old home answer the Fence."""
    shard = node.shards[0]
    assert shard is not None
    while node.change(shard):
        pass
    for _ in range(3):
        node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
        node.send_down(0, 0)


def away(node: Node) -> Away:
    (found,) = node.core(0).moves.away.values()
    return found


def home_of(client: Client) -> int:
    """Return the place named by the id of the client's consumer."""
    (consumer,) = client.connection.channels[1].consumers.values()
    return consumer.shard


def check_over(node: Node, results: list[dict[str, Any]], outcome: str = "moved") -> None:
    node.settle()
    assert results[0]["result"] == outcome
    moves = node.core(0).moves
    assert not moves.away and not moves.decided and not moves.acceptor.limbo


def test_its_consumers_name_the_old_home_then_no_shard_then_the_new_home(node: Node, client: Client) -> None:
    results = begin(node)
    assert (away(node).stage, home_of(client)) == (MoveStage.FENCING, 0)
    assert node.core(0).links[0].turn.operations[-1] == Fence(node.queue("q").queue_id, away(node).move.epoch)
    fence(node)
    assert (away(node).stage, home_of(client)) == (MoveStage.DRAINED, node.core(0).state.nowhere)
    check_over(node, results)
    assert home_of(client) == 1
    assert client.names(1).count("basic.deliver") == 2, "nothing is delivered twice"


def test_an_ack_of_a_drained_queue_is_kept_for_its_home(node: Node, client: Client) -> None:
    results = begin(node)
    fence(node)
    client.send("basic.ack", 1, delivery_tag=1)
    client.read()
    assert len(node.core(0).moves.acceptor.limbo) == 1
    check_over(node, results)
    contents = node.state("q").contents
    assert (contents.totals.acked, contents.unacked, contents.ready) == (1, 2, 1)
    assert [event.body for event in client.events[1] if event.name == "basic.deliver"] == [b"1", b"2", b"3"]


def test_acks_of_an_open_transaction_move_along(node: Node) -> None:
    publish(open_channel(node), "q", b"1", b"2")
    client = open_channel(node)
    client.call("tx.select", 1)
    for _ in range(2):
        client.send("basic.get", 1, queue="q")
    node.settle()
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    check_over(node, node.move("q", 1))
    assert node.state("q").contents.unacked == 2
    client.send("basic.ack", 1, delivery_tag=2)
    client.call("tx.commit", 1)
    contents = node.state("q").contents
    assert (contents.totals.acked, contents.unacked) == (2, 0)


def test_a_request_about_the_queue_waits_for_its_home(node: Node) -> None:
    publish(open_channel(node), "q", b"m")
    client, other = open_channel(node), open_channel(node)
    results = begin(node)
    client.send("basic.get", 1, queue="q", no_ack=True)
    client.read()
    other.send("queue.declare", 1, queue="elsewhere")
    assert [type(asked.request) for asked, _ in away(node).deferred] == [Get]
    check_over(node, results)
    assert client.take("basic.get-ok", 1).body == b"m"
    assert other.take("queue.declare-ok", 1).queue == "elsewhere"


def test_a_request_of_a_channel_that_ends_meanwhile_is_dropped(node: Node) -> None:
    publish(open_channel(node), "q", b"m")
    client = open_channel(node)
    results = begin(node)
    client.send("basic.get", 1, queue="q")
    client.read()
    assert away(node).deferred
    client.lose()
    check_over(node, results)
    contents = node.state("q").contents
    assert (contents.ready, contents.unacked) == (1, 0)


def test_operations_of_another_move_are_ignored(node: Node) -> None:
    results = begin(node)
    moves, id, epoch = node.core(0).moves, node.queue("q").queue_id, away(node).move.epoch
    moves.opened(Opened(id, epoch))
    moves.fenced(Fenced(id, epoch - 1))
    moves.fenced(Fenced(id + 1, epoch))
    assert away(node).stage is MoveStage.FENCING and not away(node).gate.lifted
    fence(node)
    moves.fenced(Fenced(id, epoch))
    assert away(node).stage is MoveStage.DRAINED
    check_over(node, results)
    moves.fenced(Fenced(id, epoch))
    moves.opened(Opened(id, epoch))
    assert not moves.away


def test_if_the_old_home_dies_before_it_is_drained_its_next_incarnation_has_the_queue(node: Node) -> None:
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", no_ack=True)
    results = begin(node)
    node.kill_shard(0)
    node.meet(0)
    assert (away(node).stage, home_of(client)) == (MoveStage.VOID, 0)
    publisher = open_channel(node)
    publish(publisher, "q", b"m")
    assert "basic.deliver" not in client.names(1)
    node.start_shard(0)
    check_over(node, results, "rolled-back")
    assert node.queue("q").shard == home_of(client) == 0
    assert client.take("basic.deliver", 1).body == b"m"


def test_consumers_of_a_queue_that_is_deleted_while_drained_are_cancelled(node: Node, client: Client) -> None:
    begin(node)
    fence(node)
    client.send("basic.ack", 1, delivery_tag=1)
    client.read()
    node.ask("queue_delete", queue_id=node.queue("q").queue_id)
    node.settle()
    assert client.take("basic.cancel", 1).consumer_tag == "c"
    moves = node.core(0).moves
    assert not moves.away and not moves.acceptor.limbo and not client.connection.channels[1].consumers


def test_an_acceptor_that_missed_the_end_of_a_move_learns_of_it_from_a_snapshot(node: Node) -> None:
    acceptor = node.acceptors[0]
    assert acceptor is not None
    results = begin(node)
    while node.router.topology.moves:
        assert node.step()
    assert away(node).stage is MoveStage.HOME and acceptor.changes
    acceptor.changes.clear()
    acceptor.core.load(node.version, node.snapshot())
    check_over(node, results)
    client = open_channel(node)
    publish(client, "q", b"m")
    assert drain(client, "q") == [b"m"]
