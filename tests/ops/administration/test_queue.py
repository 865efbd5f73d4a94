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
    assert commanded.rows(queue.app, "list") == [["/", "q", "1", "True", ""]]
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
