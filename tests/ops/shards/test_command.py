"""The commands of `penstock shard`, on a node whose shards start and end at once. With clients: tests/broker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.rebalance.node import RunningNode
from ops.shards import command
from ops.shards.command import COLUMNS, shard_rows
from penstock.memory.gauges import READY
from tests.ops.served import ServedNode, served

MIB = 1 << 20
STORE = {"limit": 60 * MIB, "stop_percent": 50, "resume_percent": 50}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served(tmp_path / "data", store=STORE) as node:
        yield node


def shard(node: ServedNode, *words: str, status: int = 0) -> str:
    """Return the output of a command, or its error."""
    done = CliRunner().invoke(command.app, [*words, "--data", str(node.data)])
    refused = isinstance(done.exception, CommandError)
    assert (2 if refused else done.exit_code) == status, (done.exception, done.output)
    return str(done.exception) if refused else done.stdout


def states(node: ServedNode) -> dict[int, str]:
    return {each["shard"]: each["state"] for each in node.command("shard_list")}


def test_rows_have_the_sums_over_the_queues_of_each_shard(node: ServedNode) -> None:
    node.declare("a", 0, ready=1, unacked=2, whole_bytes=30)
    node.declare("b", 0, ready=10, unacked=20, whole_bytes=300)
    node.declare("c", 1, ready=5)
    node.gauges.measures_write("shard", 1, 0, 0, 0, 77)
    zero = {"shard": 1, "state": "serving", "process": "ready", "pid": os.getpid(), "moves": 0}
    first, second = shard_rows(RunningNode(node.data))
    assert first == {**zero, "shard": 0, "queues": 2, "ready": 11, "unacked": 22, "bytes": 330, "stored": 0}
    assert second == {**zero, "queues": 1, "ready": 5, "unacked": 0, "bytes": 0, "stored": 77}
    assert set(COLUMNS) <= set(first)
    assert [each["shard"] for each in json.loads(shard(node, "list", "--json"))] == [0, 1]


def test_a_shard_is_added_while_there_is_a_place(node: ServedNode) -> None:
    assert shard(node, "add") == "shard 2 is serving\n"
    assert states(node) == {0: "serving", 1: "serving", 2: "serving"}
    assert "has 3 places for shards, all are taken" in shard(node, "add", status=2)


def test_what_was_added_is_said_as_json_too(node: ServedNode) -> None:
    assert json.loads(shard(node, "add", "--json")) == {"added": [2]}


def test_no_shard_is_added_where_a_store_would_exceed_its_share(node: ServedNode) -> None:
    """Each of three shards may have 20 MiB, and holds its producers from half of that on."""
    node.gauges.measures_write("shard", 1, 0, 0, 0, 10 * MIB + 1)
    assert shard(node, "add", status=2) == (
        f"shard 1 has {10 * MIB + 1} bytes in its store and may have {10 * MIB} as one of 3: "
        "it would hold its producers until the store is smaller. Raise store.limit, or use --force"
    )
    assert 2 not in states(node)
    shard(node, "add", "--force")
    assert states(node)[2] == "serving"


def test_a_store_of_just_its_share_is_no_obstacle(node: ServedNode) -> None:
    node.gauges.measures_write("shard", 1, 0, 0, 0, 10 * MIB)
    shard(node, "add")
    assert states(node)[2] == "serving"


def test_a_drained_shard_that_is_empty_can_be_removed_for_good(node: ServedNode) -> None:
    node.command("shard_drain", shard=1)
    assert shard(node, "remove", "1") == "shard 1 removed\n"
    assert states(node) == {0: "serving"}
    assert node.gauges.process_read("shard", 1).state != READY


def test_a_shard_that_is_in_use_is_not_removed(node: ServedNode) -> None:
    node.declare("a", 1)
    assert shard(node, "remove", "1", status=2) == "shard 1 takes queues: `penstock shard drain 1` first"
    node.command("shard_drain", shard=1)
    assert shard(node, "remove", "1", status=2) == "shard 1 has 1 queue"
    assert states(node)[1] == "draining"


def test_a_drained_shard_takes_queues_again(node: ServedNode) -> None:
    node.command("shard_drain", shard=1)
    assert shard(node, "undrain", "1") == "shard 1 takes queues\n"
    assert states(node)[1] == "serving"


@pytest.mark.parametrize("words", ["drain 7", "undrain 7", "remove 7"])
def test_a_shard_that_does_not_exist(node: ServedNode, words: str) -> None:
    assert shard(node, *words.split(), status=2) == "there is no shard 7"


def test_the_last_shard_that_takes_queues_is_not_drained(node: ServedNode) -> None:
    node.command("shard_drain", shard=0)
    assert shard(node, "drain", "1", status=2) == "shard 1 is the only one that takes queues"
    assert states(node) == {0: "draining", 1: "serving"}
