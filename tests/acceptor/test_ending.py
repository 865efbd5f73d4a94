"""The end of an acceptor in order: first what clients have published is safe, then they are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.ending import DRAIN_SECONDS, END_SECONDS, SAFE_SECONDS, Ending
from router.model.records import COPYING
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2, stores=True, acceptors=1) as node:
        node.commits = False
        node.declare("q", shard=1, durable=True)
        yield node


def confirming(node: Node) -> Client:
    client = open_channel(node)
    client.call("confirm.select", 1)
    return client


def test_what_was_published_is_safe_once_its_shard_says_so(node: Node) -> None:
    client = confirming(node)
    ending = Ending(node.core(0), node.now)
    assert ending.is_safe()
    client.publish(1, b"m", routing_key="q", delivery_mode=2)
    client.read()
    assert not ending.is_safe(), "it is still to be sent"
    node.settle()
    assert not ending.is_safe(), "it is not on disk"
    node.commits = True
    node.settle()
    assert ending.is_safe()
    assert client.take("basic.ack", 1).delivery_tag == 1


def test_a_dead_shard_is_not_waited_for(node: Node) -> None:
    client = confirming(node)
    client.publish(1, b"m", routing_key="q", delivery_mode=2)
    client.read()
    ending = Ending(node.core(0), node.now)
    node.kill_shard(1)
    node.settle()
    assert ending.is_safe()


def test_what_was_acked_while_its_queue_moves_is_sent_to_the_home(node: Node) -> None:
    node.commits = True
    client = confirming(node)
    client.publish(1, b"m", routing_key="q", delivery_mode=2)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.move("q", 0)
    while node.router.topology.moves[node.queue("q").queue_id].phase != COPYING:
        node.step()
    node.commits = False  # the new home cannot keep the copy
    node.settle()
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    ending = Ending(node.core(0), node.now)
    assert not any(link.sent or link.turn.operations for link in node.core(0).links) and not ending.is_safe()
    node.commits = True
    node.settle()
    assert ending.is_safe()
    ending.close_connections()
    node.settle()
    contents = node.state("q").contents
    assert (node.queue("q").shard, contents.ready, contents.unacked) == (0, 0, 0)


def test_clients_are_told_but_those_that_are_not_logged_in(node: Node) -> None:
    client, begins = confirming(node), node.visit()
    refused = node.visit(user="nobody")
    refused.log_in()
    node.settle()
    unheard = Ending(node.core(0), node.now).close_connections()
    node.settle()
    assert unheard == [begins.connection, refused.connection]
    closed = client.take("connection.close")
    assert (closed.code, closed.text.partition(" - ")[0]) == (320, "CONNECTION_FORCED")
    assert not client.socket.closed, "it may answer"
    client.send("connection.close-ok")
    node.settle()
    assert client.socket.closed


def test_clients_may_answer_until_the_end(node: Node) -> None:
    ending = Ending(node.core(0), 100.0)
    assert ending.patience(100.0) == DRAIN_SECONDS
    assert ending.patience(100.0 + SAFE_SECONDS) == END_SECONDS - SAFE_SECONDS
