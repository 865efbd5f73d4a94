"""Turns in flight to a shard: how publishes and commits are put together, and which return or are repeated."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.confirms import Confirms, Span
from acceptor.gates.queue_gate import QueueGate
from acceptor.links.sent import OWN_PARTS, Commit, Publish, Sent, paced_among
from acceptor.links.unacked_cy import Settlements, UnackedTags
from acceptor.links.weights import WHOLE
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.batch.settlement_rows import SETTLE_ACK, SETTLE_REQUEUE
from penstock.bus import to_shard
from tests.simulator.joined.node import Node, open_channel

QUEUE = 7


def batch_of(count: int, size: int = 10) -> Batch:
    """Return a batch of `count` messages with bodies of `size` bytes."""
    builder = BatchBuilder()
    for number in range(count):
        builder.add(b"\0\1q", bytes(14), (b"%d " % number).ljust(size), 0)
    return builder.finish()


def bodies(publish: Publish) -> list[bytes]:
    assert publish.batch is not None
    rows = range(publish.first, publish.first + publish.count)
    return [publish.batch.record(row)[2].rstrip() for row in rows]


class Transaction:
    """A transaction in flight."""

    channel: Any = None

    def refused_by(self, queue: int) -> None:
        raise AssertionError

    def taken(self) -> None:
        raise AssertionError


class Producer:
    """A producer of mandatory messages; each returned message is recorded with its place in its run."""

    def __init__(self) -> None:
        self.returned: list[tuple[int, int, bytes]] = []

    def refused(self, queue: int, batch: Batch, first: int, count: int, offset: int) -> None:
        for at in range(count):
            self.returned.append((queue, offset + at, batch.record(first + at)[2].rstrip()))


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=6), st.data())
def test_each_mandatory_message_among_refused_rows_is_returned_once(
    runs: list[tuple[int, bool]], data: st.DataObject
) -> None:
    publish, expected, row = Publish((QUEUE,), WHOLE), [], 0
    total = sum(count for count, _ in runs)
    before = data.draw(st.integers(0, 3))
    publish.batch, publish.first, publish.count = batch_of(before + total), before, total
    first = data.draw(st.integers(0, total - 1))
    refused = range(first, first + data.draw(st.integers(1, total - first)))
    producers = []
    for count, mandatory in runs:
        producer = Producer()
        publish.add_origin(row, count, None, producer if mandatory else None, None)
        rows = [each for each in range(row, row + count) if each in refused and mandatory]
        producers.append(producer)
        expected.append([(QUEUE, each - row, b"%d" % (before + each)) for each in rows])
        row += count
    publish.give_back(QUEUE, refused.start, len(refused))
    assert [producer.returned for producer in producers] == expected


def test_the_origin_of_rows_is_their_span_or_else_their_channel() -> None:
    with Node() as node:
        channel = open_channel(node).connection.channels[1]
    publish = Publish((QUEUE,), WHOLE)
    span = Span(Confirms(), 1, 2, 1, (), channel)
    publish.add_origin(0, 2, span, None, channel)
    assert publish.spans == [(0, span)] and publish.senders is None
    publish.add_origin(2, 1, None, None, channel)
    publish.add_origin(3, 1, None, None, channel)
    assert publish.senders == {channel: None} and not publish.returns


def test_a_publish_is_repeated_with_a_mark_unless_it_was_only_prepared() -> None:
    plain = Publish((QUEUE,), WHOLE)
    plain.leave_again()
    plain.leave_again()
    assert plain.operation(7) == to_shard.Publish((QUEUE,), 7, 0, 0, resent=True)
    aged = Publish((QUEUE,), WHOLE)
    aged.age = 300
    aged.leave_again()
    assert aged.operation(0) == to_shard.Publish((QUEUE,), 0, 0, 0, resent=True, age=300)
    for prepared, marked in ((None, True), ((1, 2, 0), False)):
        commit = Commit(Transaction(), None, prepared=prepared)
        commit.add((QUEUE,), batch_of(1), 0, 1)
        commit.publishes[0].leave_again()
        assert commit.publishes[0].operation(0).resent is marked


def test_rows_of_a_commit_join_those_before_them_for_the_same_queues() -> None:
    commit = Commit(Transaction(), None)
    batch = batch_of(6)
    for queues, first, count in (((1,), 0, 2), ((1,), 2, 1), ((1, 2), 3, 1), ((1,), 4, 2)):
        commit.add(queues, batch, first, count)
    for publish in commit.publishes:
        publish.finish()
    assert [(publish.queues, bodies(publish)) for publish in commit.publishes] == [
        ((1,), [b"0", b"1", b"2"]), ((1, 2), [b"3"]), ((1,), [b"4", b"5"]),
    ]  # fmt: skip
    assert commit.operation(None) == to_shard.Commit(3, None, [])
    assert (commit.count, commit.nbytes) == (6, batch.nbytes(0, 6))
    assert all(publish.commit is commit for publish in commit.publishes)


def test_a_large_run_of_a_commit_leaves_uncopied_and_nothing_joins_it() -> None:
    commit = Commit(Transaction(), None)
    small, large = batch_of(1), batch_of(2, OWN_PARTS)
    for batch in (small, large, small):
        commit.add((QUEUE,), batch, 0, batch.count)
    first, second, third = commit.publishes
    assert second.batch is large and (second.first, second.count) == (0, 2)
    assert first.builder is not None and third.builder is not None and third.builder is not first.builder


def test_a_publish_of_a_commit_grows_up_to_a_bound() -> None:
    commit = Commit(Transaction(), None)
    batch = batch_of(1, OWN_PARTS // 2)
    for _ in range(100):
        commit.add((QUEUE,), batch, 0, 1)
    counts = [publish.count for publish in commit.publishes]
    assert sum(counts) == 100 and 1 < len(counts) == commit.operation(None).publishes < 10
    assert all(publish.batch is not None for publish in commit.publishes[:-1])


def test_the_operation_of_a_part_of_a_larger_transaction_names_it() -> None:
    commit = Commit(Transaction(), Settlements(), powerless={9, 3}, prepared=(5, 6, 1))
    operation = commit.operation(4)
    assert isinstance(operation, to_shard.Prepare) and operation == to_shard.Prepare(0, 4, [3, 9], 5, 6, 1)


def test_a_commit_is_repeated_without_its_requeues() -> None:
    settlements = Settlements()
    for consumer, kind in ((0x100, SETTLE_ACK), (0x200, SETTLE_REQUEUE)):
        tags = UnackedTags()
        tags.deliver(consumer, 1, 2)
        tags.settle_all(kind, [settlements])
    commit = Commit(Transaction(), settlements)
    commit.leave_again()
    assert commit.settlements is not None and commit.settlements.consumers() == {0x100}
    assert settlements.consumers() == {0x100, 0x200}
    without = Commit(Transaction(), None)
    without.leave_again()
    assert without.settlements is None


@pytest.mark.parametrize("turns", [[], [(2, 0)], [(2, 5), (3, 1)]])
def test_messages_for_paced_queues_are_counted_over_all_turns(turns: list[tuple[int, int]]) -> None:
    with Node() as node:
        ids = [
            node.declare("paced", **{"x-pace-depth": 10}).queue_id,
            node.declare("marked", **{"x-flow-stop-count": 5}).queue_id,
        ]
        node.settle()
        paced, marked = (node.core(0).gates.queue_gates[id] for id in ids)
    unsafe = []
    for count, other in turns:
        sent = Sent()
        sent.queue_gates = {paced: [count, 10 * count], marked: [other, 10 * other]}
        unsafe.append(sent)
    assert isinstance(paced, QueueGate) and paced.pace is not None
    total = sum(count for count, _ in turns)
    assert paced_among(unsafe) == (Counter({(paced.pace, paced): total}) if turns else Counter())
