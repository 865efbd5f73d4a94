"""Recovery of a store when a shard starts: each queue gets its own contents, once, and the store forgets the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from router.model.records import Queue as Record
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER, UNLIMITED
from shard.queue.expiry import Alarms
from shard.queue.queue_state import QueueState
from shard.queue.stalls import Stalls
from shard.recovered import Recovered
from shard.serving.leases import Leases
from shard.store.journal import Journal
from shard.store.store import Store
from shard.store.stored import TRANSACTION, pack_held
from shard.turns.state import ShardState
from tests.shard.store.test_store import LIMIT, OpenedStore, bodies
from tests.shard.test_damage import damage
from tests.simulator.joined.node import Node

QUEUE = 7
"""The id of the queue that `Life` fills."""


class Start:
    """The start of a shard: an open store and its recovery. `epoch` is 1 for a restart of the shard alone."""

    def __init__(self, path: Path, record: Record, node: Node, epoch: int = 1) -> None:
        self.record = record
        self.store = Store(path, LIMIT, durable=False, epoch=epoch)
        self.journal = Journal(self.store.read)
        self.found: list[int] = []
        self.recovered = Recovered(self.store, self.journal, self.found.append)
        self.state = ShardState(0, node.gauges, 0, self.store.starts, self.journal)

    def give(self, queue_id: int = QUEUE) -> QueueState:
        queue = self.state.make_queue(replace(self.record, queue_id=queue_id))
        self.recovered.give(queue, Leases(self.state, Stalls(Alarms()), lambda action: action()))
        return queue

    def end(self) -> None:
        """Write what the journal has gathered, and close the store."""
        self.store.write(self.journal.hand_over())
        self.store.close()


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def record(node: Node) -> Record:
    """The record of a durable queue."""
    return node.declare("q", durable=True)


def mixed(*messages: tuple[bytes, int], path: Path, settled: int = 0) -> None:
    """Leave a store with one segment of messages with these flags, the first `settled` of which are gone."""
    builder = BatchBuilder()
    for body, flags in messages:
        builder.add(b"\0\0", bytes(14), body, flags)
    opened = OpenedStore(path)
    first = opened.queue.enqueue(builder.finish(), 0, len(messages))
    if settled:
        opened.queue.pop(settled, UNLIMITED, False)
        opened.queue.settle(first, settled)
    opened.commit()
    opened.end()


@pytest.mark.parametrize(("epoch", "left"), [(1, [b"kept", b"transient", b"kept too"]), (2, [b"kept", b"kept too"])])
def test_only_persistent_messages_outlive_the_node(
    tmp_path: Path, record: Record, node: Node, epoch: int, left: list[bytes]
) -> None:
    mixed((b"kept", PERSISTENT), (b"transient", 0), (b"kept too", PERSISTENT), path=tmp_path)
    start = Start(tmp_path, record, node, epoch)
    assert [body for body, _ in bodies(start.give().contents)] == left
    start.end()
    start = Start(tmp_path, record, node, epoch)
    assert [body for body, _ in bodies(start.give().contents)] == left, "the store has forgotten the others"
    start.end()


def test_a_segment_without_a_persistent_message_leaves_the_store(tmp_path: Path, record: Record, node: Node) -> None:
    mixed((b"settled", PERSISTENT), (b"transient", 0), path=tmp_path, settled=1)
    start = Start(tmp_path, record, node, epoch=2)
    assert start.give().contents.ready == 0
    start.end()
    store = Store(tmp_path, LIMIT, durable=False, epoch=2)
    assert list(store.segments()) == []
    store.close()


def test_messages_that_cannot_be_read_are_all_kept(tmp_path: Path, record: Record, node: Node) -> None:
    mixed((b"kept", PERSISTENT), (b"transient", 0), path=tmp_path)
    damage(tmp_path, 0)
    start = Start(tmp_path, record, node, epoch=2)
    assert start.give().contents.ready == 2
    assert "messages cannot be read, all are kept" in [each["event"] for each in node.logs]
    start.end()


def test_a_queue_gets_its_contents_in_order_and_once(tmp_path: Path, record: Record, node: Node) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.merges = False
    for number in range(3):
        builder = BatchBuilder()
        builder.add(b"\0\0", bytes(14), b"%d" % number, PERSISTENT)
        opened.queue.enqueue(builder.finish(), 0, 1)
        opened.commit()
    opened.end()
    start = Start(tmp_path, record, node)
    assert start.found == [1, 2, 3]
    assert start.journal.nbytes > 0
    assert start.give(QUEUE + 1).contents.ready == 0
    assert [body for body, _ in bodies(start.give().contents)] == [b"0", b"1", b"2"]
    assert start.give().contents.ready == 0
    start.end()


def test_a_lease_comes_back_with_its_messages(tmp_path: Path, record: Record, node: Node) -> None:
    mixed(*[(b"%d" % number, PERSISTENT) for number in range(4)], path=tmp_path)
    opened = OpenedStore(tmp_path)
    first = opened.queue.first_ready()
    opened.journal.put_lease(QUEUE, "reader", pack_held(5, 6, [(first + 1, first + 3)]))
    opened.commit()
    opened.end()
    start = Start(tmp_path, record, node)
    queue = start.give()
    lease = queue.leases["reader"]
    assert (lease.lasts, lease.until, list(lease.held.ranges())) == (5, 6, [(first + 1, first + 3)])
    assert [body for body, _ in bodies(queue.contents)] == [b"0", b"3"]
    start.end()


def test_the_store_forgets_deleted_queues(tmp_path: Path, record: Record, node: Node) -> None:
    mixed((b"of a deleted queue", PERSISTENT), path=tmp_path)
    opened = OpenedStore(tmp_path)
    first = opened.queue.first_ready()
    opened.journal.lease(QUEUE, 0, first + 1)
    opened.journal.count(QUEUE, first, 3)
    opened.journal.put_lease(QUEUE, "reader", pack_held(5, NEVER, [(first, first + 1)]))
    opened.commit()
    opened.end()
    start = Start(tmp_path, record, node)
    start.give(QUEUE + 1)
    start.recovered.forget_others()
    assert start.journal.nbytes == 0
    start.end()
    store = Store(tmp_path, LIMIT, durable=False, epoch=1)
    assert not [*store.segments(), *store.numbers("leases"), *store.numbers("counts"), *store.held()]
    store.close()


def test_decisions_come_back_and_a_malformed_part_is_refused(tmp_path: Path, record: Record, node: Node) -> None:
    malformed, other = (TRANSACTION.pack(1, 0, 1, number) for number in (7, 8))
    opened = OpenedStore(tmp_path)
    opened.journal.decide(other, b"\x92\x01\x02")
    opened.commit()
    opened.end()
    start = Start(tmp_path, record, node)
    assert (start.recovered.parts, start.recovered.decisions) == ({}, {other: [1, 2]})
    start.journal.prepare(malformed, [b"\xff\xff\xff\xff"], 4)
    start.end()
    with pytest.raises(StoreError, match="not a part of a transaction"):
        Start(tmp_path, record, node)
