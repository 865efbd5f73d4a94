"""Questions to single acceptors and shards: each is asked in its present incarnation, and named if it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.administration.processes import Processes
from ops.errors import CommandError
from penstock.memory.gauges import READY
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel


def test_the_answers_of_all_acceptors_are_joined() -> None:
    with Commanded(acceptors=2) as commanded:
        clients = [open_channel(commanded.node, acceptor) for acceptor in (0, 1)]
        commanded.node.declare("q")
        for client in clients:
            client.publish(1, b"x", routing_key="q")
        commanded.node.settle()
        found = Processes(commanded.data).ask_acceptors("publishing")
    assert [each["connection"] for each in found] == [client.connection.id for client in clients]


def test_a_shard_is_asked_with_arguments(commanded: Commanded) -> None:
    id = commanded.node.declare("q").queue_id
    commanded.node.settle()
    processes = Processes(commanded.data)
    assert processes.ask("shard", 0, "queues") == [id]
    assert processes.ask("shard", 0, "consumers", id=id) == []


def test_a_refusal_names_the_process(commanded: Commanded) -> None:
    with pytest.raises(CommandError, match=r"^acceptor 0: unknown command 'nothing'$"):
        Processes(commanded.data).ask("acceptor", 0, "nothing")


def test_a_successor_is_not_taken_for_the_process_before_it(commanded: Commanded) -> None:
    """The successor has another socket, here one that is not served yet."""
    processes = Processes(commanded.data)
    commanded.node.gauges.process_write("shard", 0, pid=2, incarnation=2, state=READY, started_us=0, restarts=1)
    with pytest.raises(CommandError, match=r"^shard 0 does not answer: .*; try again$"):
        processes.ask("shard", 0, "queues")


def test_without_a_node_there_are_no_processes(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"^no node runs on {tmp_path}$"):
        Processes(tmp_path)
