"""A shard that follows the topology: queues that are added, changed, moved or deleted, by changes and snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from shard.queue.deletion import Stage
from tests.shard.steps import drain, get, publish
from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2, stores=True) as node:
        yield node


def test_a_snapshot_in_which_a_queue_has_the_slot_of_one_that_has_moved_away() -> None:
    """The shard knew of neither move: the slot belongs to the newcomer when the other queue is closed."""
    with Node(shards=2) as node:
        coming, going = node.declare("coming", shard=0), node.declare("going", shard=1)
        node.settle()
        records = [replace(coming, shard=1, slot=going.slot), replace(going, shard=0, slot=coming.slot)]
        changes = [change for change in node.snapshot() if change[0] != "queue"]
        node.shard(1).load(node.version, [*changes, *(record.change() for record in records)])
        node.finish_shard(1)
        gauge = node.gauges.queue_read(going.slot)
        assert gauge is not None and gauge.name == "coming"
        assert [*node.shard(1).state.queues] == [coming.queue_id]


def test_a_snapshot_leaves_present_queues_as_they_are_and_ends_absent_ones(node: Node) -> None:
    node.declare("stays")
    gone = node.declare("goes")
    client = open_channel(node)
    for name in ("stays", "goes"):
        publish(client, name, b"1", b"2")
    client.call("basic.consume", 1, queue="goes")
    stays = node.state("stays")
    changes = [change for change in node.snapshot() if change[0] != "queue" or change[3] != gone.queue_id]
    node.shard(0).load(node.version, changes)
    node.settle()
    assert client.take("basic.cancel", 1)
    assert node.shard(0).state.queues == {stays.id: stays}
    assert drain(client, "stays") == [b"1", b"2"]


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_what_ended_while_a_shard_was_dead_leaves_no_row_in_the_gauges(node: Node, how: str) -> None:
    """The next incarnation closes it; rows of other shards are left alone."""
    ends, other = node.declare("ends", shard=0), node.declare("other", shard=1)
    stays = node.declare("stays", shard=0)
    node.settle()
    node.kill_shard(0)
    if how == "deleted":
        node.ask("queue_delete", queue_id=ends.queue_id)
    else:
        ledger = node.router.authority.ledger
        slot = ledger.take_slot(1)
        assert slot is not None
        ledger.rehome_queue(ends, 1, slot)
        node.publish_changes()
    node.start_shard(0)
    node.settle()
    assert node.gauges.queue_read(ends.slot) is None
    assert node.gauges.queues_of(0) == [(stays.slot, stays.queue_id)]
    assert (other.slot, other.queue_id) in node.gauges.queues_of(1)


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_queue_that_has_gone_leaves_nothing_behind(node: Node, how: str) -> None:
    """Not even its row in the gauges is left: at its new home it has another one."""
    record = node.declare("q", durable=True, **MARKS)
    consumer = open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=3)
    consumer.call("basic.consume", 1, queue="q")
    for acceptor in range(2):
        publisher = open_channel(node, acceptor)
        for _ in range(60):
            publisher.publish(1, b"m", routing_key="q", delivery_mode=2)
    node.settle(rechecks=2)
    core, queue = node.shard(0), node.state("q")
    assert core.flow.stopped and core.waiters.weights and core.state.weight
    assert core.state.journal is not None and core.state.journal.nbytes
    if how == "deleted":
        node.ask("queue_delete", queue_id=record.queue_id)
    else:
        results = node.move("q", 1)
        node.settle()
        assert results[0]["result"] == "moved", results
    node.settle(rechecks=1)
    assert queue.deletion.stage is Stage.GONE and queue.id not in core.state.queues
    assert not core.state.touched and not core.flow.stopped and not core.waiters.weights
    assert not core.paces.asked and not core.stalls.stalled
    assert (core.state.weight, core.state.journal.nbytes) == (0, 0)
    assert node.gauges.queue_read(record.slot) is None


def test_other_marks_begin_the_overshoot_anew_and_are_an_event(node: Node) -> None:
    record = node.declare("q", **MARKS)
    node.settle()
    node.gauges.queue_write_over(record.slot, 7, 700)
    core = node.shard(0)

    def seen() -> tuple[int, list[str]]:
        node.settle()
        gauge = node.gauges.queue_read(record.slot)
        assert gauge is not None
        return gauge.over_count, [each["event"] for each in core.events.records]

    node.policy("other", "^q$", {"message-ttl": 60_000})
    assert seen() == (7, []), "not a mark"
    assert node.state("q").features.message_ttl == 60_000
    node.policy("other", "^q$", {"flow-stop-count": 15, "flow-resume-count": 5})
    assert seen() == (0, ["limits"])
    assert node.state("q").saturation.marks.stop_count == 15


def test_contents_of_a_queue_that_was_deleted_meanwhile_leave_the_store(node: Node) -> None:
    record = node.declare("q", durable=True)
    node.declare("other", durable=True)
    client = open_channel(node)
    for name in ("q", "other"):
        publish(client, name, b"m", delivery_mode=2)
    node.kill_shard(0)
    node.ask("queue_delete", queue_id=record.queue_id)
    node.start_shard(0)
    node.settle()
    incarnation = node.shards[0]
    assert incarnation is not None and incarnation.store is not None
    assert [queue_id for queue_id, _ in incarnation.store.segments()] == [node.queue("other").queue_id]
    assert get(client, "other")


def test_a_change_is_applied_with_its_version(node: Node) -> None:
    """Turns wait for the version by which they were routed."""
    incarnation = node.shards[1]
    assert incarnation is not None
    node.settle()
    before = incarnation.core.state.version
    record = node.declare("q", shard=1)
    while node.change(incarnation):
        pass
    assert incarnation.core.state.version == incarnation.core.state.topology.version == node.version > before
    assert [*incarnation.core.state.queues] == [record.queue_id]
