"""`penstock queue`: the places of queues, and the output for a move that is made, needless or refused."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
from typer.testing import CliRunner

from ops.administration import queue
from ops.errors import CommandError
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel


@pytest.fixture
def commanded() -> Iterator[Commanded]:
    """An in-memory node with two shards."""
    with Commanded(shards=2) as node:
        yield node


def test_a_queue_lives_on_the_shard_that_it_is_moved_to(commanded: Commanded) -> None:
    commanded.node.declare("q", shard=0, durable=True)
    client = open_channel(commanded.node)
    client.publish(1, b"five!", routing_key="q")
    commanded.node.settle()
    said = commanded.run(queue.app, "move", "/", "q", "1")
    assert said.startswith("queue 'q' in vhost '/' lives on shard 1 now: 1 messages, ")
    assert commanded.rows(queue.app, "list", "--where", "ready>0") == [["/", "q", "1", "0", "0", "1", "True", ""]]
    said = commanded.run(queue.app, "move", "/", "q", "1")
    assert said == "queue 'q' in vhost '/' lives on shard 1 already\n"


def test_a_move_that_is_refused_says_why_also_in_json(commanded: Commanded) -> None:
    reason = commanded.refusal(queue.app, "move", "/", "none", "1")
    assert reason.startswith("queue 'none' in vhost '/' is not moved, ")
    words = ["move", "/", "none", "1", "--data", str(commanded.data), "--json"]
    done = CliRunner().invoke(queue.app, words)
    assert isinstance(done.exception, CommandError)
    answer = orjson.loads(done.stdout)
    assert reason.endswith(f"is not moved, {answer['result']}: {answer['reason']}")


def test_a_queue_that_cannot_be_moved_is_listed_with_the_reason(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    client = open_channel(commanded.node)
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    ((_, name, *_, reason),) = commanded.rows(queue.app, "list", "--vhost", "/")
    assert name == "mine" and "exclusive" in reason
    assert commanded.json(queue.app, "list", "--vhost", "eu") == []


def test_a_move_that_is_not_over_is_rolled_back_once(commanded: Commanded) -> None:
    commanded.node.declare("q", shard=0)
    commanded.node.settle()
    outcomes = commanded.node.move("q", 1)
    assert commanded.run(queue.app, "abort", "/", "q") == "the move is rolled back\n"
    commanded.node.settle()
    assert outcomes and outcomes[0]["result"] not in queue.DONE
    assert commanded.node.queue("q").shard == 0
    assert commanded.run(queue.app, "abort", "/", "q") == "there is no move to roll back\n"


def test_a_queue_is_declared_purged_and_deleted(commanded: Commanded) -> None:
    arguments = ["--arguments", '{"x-max-length": 5}']
    assert commanded.run(queue.app, "declare", "orders", *arguments) == "queue 'orders' declared\n"
    client = open_channel(commanded.node)
    for _ in range(2):
        client.publish(1, b"m", routing_key="orders")
    commanded.node.settle()
    assert commanded.run(queue.app, "declare", "orders", *arguments) == "queue 'orders' exists, with 2 messages\n"
    assert "inequivalent arg 'x-max-length'" in commanded.refusal(queue.app, "declare", "orders")
    assert commanded.refusal(queue.app, "declare", "x", "--arguments", "[]") == "--arguments is not a JSON object"
    assert commanded.run(queue.app, "purge", "orders") == "2 messages dropped from queue 'orders'\n"
    assert commanded.run(queue.app, "delete", "orders") == "queue 'orders' deleted, with 0 messages\n"
    assert commanded.refusal(queue.app, "purge", "orders") == "there is no queue 'orders' in vhost '/'"


def test_a_queue_with_messages_is_deleted_only_if_that_is_confirmed(commanded: Commanded) -> None:
    commanded.node.declare("q")
    client = open_channel(commanded.node)
    client.publish(1, b"m", routing_key="q")
    commanded.node.settle()
    kept = "queue 'q' is not deleted; --yes does it without a question"
    assert commanded.refusal(queue.app, "delete", "q", input="n\n") == kept
    assert commanded.refusal(queue.app, "delete", "q", "--if-empty") == "queue 'q' in vhost '/' not empty"
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    assert commanded.refusal(queue.app, "delete", "q", "--if-unused") == "queue 'q' in vhost '/' in use"
    assert commanded.run(queue.app, "delete", "q", "--yes") == "queue 'q' deleted, with 0 messages\n"


def test_messages_are_shown_and_stay(commanded: Commanded) -> None:
    commanded.node.declare("q")
    client = open_channel(commanded.node)
    properties = {"headers": {"tries": 3, "raw": b"\xff"}, "content_type": "text/plain", "delivery_mode": 2}
    client.publish(1, "größer".encode(), routing_key="q", **properties)
    client.publish(1, b"\xff\xfe", routing_key="q")
    client.publish(1, b"x" * 5000, routing_key="q")
    commanded.node.settle()
    first, second, third = commanded.json(queue.app, "get", "q")
    assert first == {
        "exchange": "", "routing_key": "q", "body": "größer", "body_encoding": "utf-8", "size": 8,
        "properties": {"content_type": "text/plain", "headers": {"tries": 3, "raw": "/w=="}, "delivery_mode": 2},
    }  # fmt: skip
    assert (second["body"], second["body_encoding"]) == ("//4=", "base64")
    assert (len(third["body"]), third["size"]) == (1000, 5000)
    assert commanded.run(queue.app, "get", "q", "--count", "1", "--body-bytes", "3") == (
        "1. to the default exchange, routing key 'q', 8 bytes\n"
        "   content_type: text/plain\n"
        "   headers: {'tries': 3, 'raw': '/w=='}\n"
        "   delivery_mode: 2\n"
        "   body: gr\n"
        "1 of 3 messages ready\n"
    )
    assert [each["size"] for each in commanded.json(queue.app, "get", "q", "--skip", "1", "--count", "1")] == [2]
    assert commanded.refusal(queue.app, "get", "none") == "there is no queue 'none' in vhost '/'"
    assert "at most 1000 messages" in commanded.refusal(queue.app, "get", "q", "--count", "1001")
    got = client.call("basic.get", 1, queue="q", no_ack=True)
    assert not got.arguments["redelivered"]
