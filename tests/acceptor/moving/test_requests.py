"""Requests of methods to the router and to shards: when answers are passed on, and requests of an ending connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.asking import Answer, ToRouter, ToShard
from penstock.bus.to_shard import Stat
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        node.settle()
        yield node


def test_an_answer_of_the_router_waits_until_the_replica_has_caught_up(node: Node) -> None:
    core, answers = node.core(0), list[Answer]()
    core.requests.ask(ToRouter("queue_declare", {"name": "new"}), answers.append)
    ((name, arguments, done),) = core.state.router_requests
    assert (name, arguments) == ("queue_declare", {"name": "new"})
    core.state.router_requests.clear()
    node.gauges.set_topology_version(node.version + 1)
    done({"queue_id": 5}, None)
    core.requests.catch_up()
    assert not answers and len(core.requests.until_current) == 1
    core.apply(node.version + 1, [])
    assert answers == [Answer({"queue_id": 5}, None)] and not core.requests.until_current


def test_an_error_of_the_router_is_passed_on_at_once_where_the_replica_is_current(node: Node) -> None:
    core, answers = node.core(0), list[Answer]()
    core.requests.ask(ToRouter("queue_lookup", {"name": "none"}), answers.append)
    ((_, _, done),) = core.state.router_requests
    core.state.router_requests.clear()
    done(None, [404, "no queue"])
    assert answers == [Answer(None, [404, "no queue"])]


def test_answers_are_passed_on_in_the_order_in_which_they_came(node: Node) -> None:
    requests, order = node.core(0).requests, list[int]()
    node.gauges.set_topology_version(node.version + 1)
    for number in range(3):
        requests.once_current(lambda number=number: order.append(number))
    assert not order
    node.core(0).apply(node.version + 1, [])
    assert order == [0, 1, 2]


def test_a_request_to_a_shard_goes_there_and_its_answer_comes_back(node: Node) -> None:
    core, answers = node.core(0), list[Answer]()
    core.requests.ask(ToShard(0, Stat(node.queue("q").queue_id)), answers.append)
    assert isinstance(core.links[0].turn.operations[-1], Stat) and not core.state.router_requests
    node.settle()
    (answer,) = answers
    assert answer.error is None and answer.result[0] == 0


# Requests of whole clients


def test_exclusive_queues_go_before_close_is_answered(node: Node) -> None:
    client = open_channel(node)
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    client.call("connection.close")
    assert node.router.topology.queue("/", "mine") is None
    client.lose()
    assert not node.core(0).state.router_requests


def test_a_connection_without_exclusive_queues_asks_nobody_when_it_closes(node: Node) -> None:
    client = open_channel(node)
    client.call("queue.declare", 1, queue="everybody's")
    client.send("connection.close")
    client.read()
    assert client.names()[-1] == "connection.close-ok"
    client.lose()
    assert not node.core(0).state.router_requests


def test_a_method_goes_on_only_when_the_replica_knows_what_the_router_answered(node: Node) -> None:
    """A queue is declared and consumed from without waiting: the router's answer comes before the change does."""
    client = open_channel(node)
    client.send("queue.declare", 1, queue="new", nowait=True)
    client.send("basic.consume", 1, queue="new")
    client.read()
    node.finish(0)
    acceptor = node.acceptors[0]
    assert acceptor is not None
    node.reply(acceptor)
    node.settle()
    client.take("basic.consume-ok", 1)


def test_a_question_to_a_shard_waits_until_the_shard_knows_the_queue(node: Node) -> None:
    client = open_channel(node)
    client.send("queue.declare", 1, queue="new")
    client.read()
    node.finish(0)
    acceptor, shard = node.acceptors[0], node.shards[0]
    assert acceptor is not None and shard is not None
    node.reply(acceptor)
    node.finish(0)
    node.send_up(0, 0)
    node.settle()
    assert client.take("queue.declare-ok", 1).queue == "new"
