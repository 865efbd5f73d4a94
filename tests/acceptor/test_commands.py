"""Commands on queues: declared, purged and deleted by an operator, with the refusals that clients would get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.commands import carry_out
from tests.shard.steps import publish
from tests.simulator.joined.node import Node, open_channel

PLAIN: dict[str, Any] = {"durable": True, "auto_delete": False, "arguments": {}}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node


def command(node: Node, name: str, /, **arguments: Any) -> Any:
    """Return the answer of a command."""
    answers: list[dict[str, Any]] = []
    carry_out(node.core(0), name, {"vhost": "/", **arguments}, answers.append)
    node.settle()
    (answer,) = answers
    return answer


def test_a_queue_is_declared_and_found_again(node: Node) -> None:
    declared = command(node, "queue_declare", name="q", **PLAIN)["result"]
    queue = node.router.topology.queue("/", "q")
    assert queue is not None and queue.durable and queue.maker is None
    assert declared == {"new": True, "shard": queue.shard, "messages": 0, "consumers": 0}
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    node.settle()
    again = command(node, "queue_declare", name="q", **PLAIN)["result"]
    assert again == {**declared, "new": False, "messages": 2}


def test_a_queue_is_purged_and_deleted_with_its_consumers(node: Node) -> None:
    node.declare("q")
    node.settle()
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    node.settle()
    assert command(node, "queue_purge", name="q") == {"result": 2}
    publish(client, "q", b"3")
    client.call("basic.qos", 1, prefetch_count=1)
    client.call("basic.consume", 1, queue="q", consumer_tag="reader")
    publish(client, "q", b"4")
    node.settle()
    in_use = command(node, "queue_delete", name="q", if_unused=True, if_empty=False)
    assert in_use == {"error": "queue 'q' in vhost '/' in use", "kind": "invalid"}
    not_empty = command(node, "queue_delete", name="q", if_unused=False, if_empty=True)
    assert not_empty == {"error": "queue 'q' in vhost '/' not empty", "kind": "invalid"}
    assert command(node, "queue_delete", name="q", if_unused=False, if_empty=False) == {"result": 1}
    assert node.router.topology.queue("/", "q") is None
    assert client.take("basic.cancel", 1).arguments["consumer_tag"] == "reader"


def test_what_clients_are_refused_operators_are_too(node: Node) -> None:
    node.declare("q")
    node.settle()
    for name, more, text, kind in (
        ("queue_declare", {"name": "q", **PLAIN, "auto_delete": True}, "inequivalent arg", "invalid"),
        ("queue_declare", {"name": "amq.x", **PLAIN}, "contains reserved prefix 'amq.*'", "invalid"),
        ("queue_declare", {"name": "x", **PLAIN, "vhost": "none"}, "vhost none not found", "invalid"),
        ("queue_purge", {"name": "none"}, "there is no queue 'none' in vhost '/'", "not_found"),
        ("queue_delete", {"name": "none", "if_unused": False, "if_empty": False}, "there is no queue", "not_found"),
        ("queue_purge", {"name": 5}, "queue_purge takes vhost, name", "invalid"),
        ("login", {"name": "guest", "password": "guest"}, "login takes name, password, host", "invalid"),
    ):
        answer = command(node, name, **more)
        assert text in answer["error"] and answer["kind"] == kind


def test_a_command_waits_while_its_shard_is_replaced(node: Node) -> None:
    node.declare("q")
    node.settle()
    queue = node.router.topology.queue("/", "q")
    assert queue is not None
    node.kill_shard(queue.shard)
    answers: list[dict[str, Any]] = []
    carry_out(node.core(0), "queue_purge", {"vhost": "/", "name": "q"}, answers.append)
    node.settle()
    assert not answers
    node.start_shard(queue.shard)
    node.settle()
    assert answers == [{"result": 0}]
