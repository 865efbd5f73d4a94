"""Copies of moving queues, written and read in the background by chunks, and the effects of failures and aborts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.batch.batch_cy import Batch
from shard.contents.errors import StoreError
from shard.moving.carrying import Carrier
from shard.queue.copying import Writer
from shard.queue.residence import OPEN
from tests.shard.steps import drain, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel
from tests.simulator.joined.processes import at_once

UNLIMITED = 1 << 62


class Thread:
    """The background thread of one shard, which runs a job only when the test asks for it."""

    def __init__(self, node: Node, index: int, stores: Path | None = None) -> None:
        self.jobs: deque[tuple[Callable[[], None], Callable[[StoreError | None], None]]] = deque()
        self.run = 0
        incarnation = node.shards[index]
        assert incarnation is not None
        incarnation.carrier = Carrier(incarnation.core.moving, stores or node.stored, self.begin)

    def begin(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        self.jobs.append((work, done))

    def run_one(self) -> bool:
        """Run the next job; return whether there was one."""
        if self.jobs:
            self.run += 1
            at_once(*self.jobs.popleft())
            return True
        return False


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(1, 2, stores=True) as node:
        yield node


def filled(node: Node, count: int = 80, size: int = 100_000) -> tuple[Client, list[bytes]]:
    """Return a client, and the messages of a queue on the first shard: several chunks."""
    node.declare("q", durable=True)
    client = open_channel(node)
    bodies = [b"%d" % number + bytes(size) for number in range(count)]
    for at in range(0, count, 10):
        publish(client, "q", *bodies[at : at + 10], delivery_mode=2)
    return client, bodies


def copies(node: Node) -> list[Path]:
    return list(node.stored.glob("*/move-*"))


def go_on(node: Node, *threads: Thread) -> None:
    """Run background jobs until none is left."""
    node.settle()
    while any(thread.run_one() for thread in threads):
        node.settle()


def stays(node: Node, client: Client, bodies: list[bytes], results: list[dict[str, Any]], why: str) -> None:
    """Check that the move was rolled back for this reason, the queue has all its messages, and no copy is left."""
    (result,) = results
    assert result["result"] == "rolled-back" and why in result["reason"], result
    assert node.queue("q").shard == 0 and node.state("q").residence is OPEN
    assert not copies(node)
    assert drain(client, "q") == bodies


def test_a_copy_is_written_and_read_by_chunks_while_the_shards_go_on(node: Node) -> None:
    client, bodies = filled(node)
    node.declare("other")
    threads = [Thread(node, index) for index in range(2)]
    results = node.move("q", 1)
    node.settle()
    assert [len(thread.jobs) for thread in threads] == [1, 1] and not results
    publish(client, "other", b"meanwhile")
    assert drain(client, "other") == [b"meanwhile"]
    go_on(node, *threads)
    assert [result["result"] for result in results] == ["moved"]
    assert threads[0].run >= 3 + 2, "chunks, the end of the file, and its removal"
    assert threads[1].run >= 3 + 1, "chunks, and the end"
    assert not copies(node)
    assert drain(client, "q") == bodies


def test_a_copy_that_cannot_be_written_leaves_the_queue_where_it_is(node: Node) -> None:
    client, bodies = filled(node)
    thread = Thread(node, 0, stores=node.stored / "absent")
    results = node.move("q", 1)
    go_on(node, thread)
    stays(node, client, bodies, results, "No such file or directory")


def test_messages_that_cannot_be_read_leave_the_queue_where_it_is(node: Node) -> None:
    client, bodies = filled(node)
    state = node.state("q")
    state.contents.page_out(UNLIMITED, 0)
    journal = node.shard(0).state.journal
    assert state.contents.paged and journal is not None
    read = journal.read

    def refuse(key: bytes, count: int, spilled: bool) -> Batch:
        raise StoreError(Path("store"), "input/output error")

    journal.read = refuse
    results = node.move("q", 1)
    node.settle()
    journal.read = read
    stays(node, client, bodies, results, "input/output error")


@pytest.mark.parametrize(("left", "why"), [(None, "No such file or directory"), (1000, "it is cut short")])
def test_a_copy_that_cannot_be_read_leaves_the_queue_where_it_is(node: Node, left: int | None, why: str) -> None:
    client, bodies = filled(node)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move("q", 1)
    go_on(node, threads[0])
    (copy,) = copies(node)
    if left is None:
        copy.unlink()
    else:
        copy.write_bytes(copy.read_bytes()[:left])
    assert len(threads[1].jobs) == 1
    go_on(node, *threads)
    stays(node, client, bodies, results, why)


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_move_that_is_aborted_leaves_no_copy(node: Node, written: int) -> None:
    client, bodies = filled(node)
    threads = [Thread(node, index) for index in range(2)]
    results = node.move("q", 1)
    node.settle()
    for _ in range(written):
        assert threads[0].run_one()
    assert len(copies(node)) == min(written, 1)
    assert node.abort_move("q")
    go_on(node, *threads)
    stays(node, client, bodies, results, "")


def test_a_copy_that_is_not_removed_is_logged(node: Node) -> None:
    incarnation = node.shards[0]
    assert incarnation is not None
    node.declare("q")
    node.settle()
    path = node.stored / "0" / "move-1-1"
    path.mkdir()
    incarnation.carrier.remove(Writer(path, node.state("q")))
    (line,) = [each for each in node.logs if each["event"] == "copy of a queue was not closed or removed"]
    assert line["problem"] == f"{path}: Is a directory"
