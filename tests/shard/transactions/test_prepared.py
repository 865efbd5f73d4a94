"""Parts of a transaction that is not decided yet, in joined cores with stores: visible to nobody, and never lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.batch.batch_cy import PERSISTENT
from shard.transactions.prepared import Part, split
from tests.shard.steps import drain, get, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

SOURCE, TARGET = "source", "target"
BODIES = [b"0", b"1", b"2"]
LATER_MS = 300
"""Milliseconds after which a shard in doubt has asked again."""


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with two acceptors and one shard more than the queues are on; the source's shard decides."""
    with Node(2, 3, stores=True) as node:
        node.show_processes()
        node.declare(SOURCE, 0, durable=True)
        node.declare(TARGET, 1, durable=True)
        yield node


def begun(node: Node, **properties: int) -> Client:
    """Return a client that has got, acked and republished three messages in a transaction it has yet to commit."""
    filler = open_channel(node, 1)
    publish(filler, SOURCE, *BODIES, delivery_mode=2)
    client = open_channel(node)
    client.call("tx.select", 1)
    publish(client, SOURCE, b"own", delivery_mode=2)
    for body in BODIES:
        event = get(client, SOURCE, no_ack=False)
        assert event is not None and event.body == body
        client.publish(1, body, routing_key=TARGET, **(properties or {"delivery_mode": 2}))
    client.send("basic.ack", 1, delivery_tag=event.delivery_tag, multiple=True)
    return client


def go_on(node: Node, *shards: int) -> None:
    """Have these shards apply and commit the first acceptor's turns; nothing goes back."""
    node.finish(0)
    for shard in shards:
        while node.send_up(0, shard):
            pass
        node.finish_shard(shard)
        while node.commit_shard(shard):
            node.finish_shard(shard)


def prepared(node: Node, **properties: int) -> Client:
    client = begun(node, **properties)
    client.send("tx.commit", 1)
    client.read()
    go_on(node, 0, 1)
    assert [len(node.shard(shard).two_phase.parts) for shard in (0, 1)] == [1, 1]
    return client


def decided(node: Node) -> Client:
    """Return a client whose transaction is decided in the deciding shard's store, and nowhere else."""
    client = prepared(node)
    while node.send_down(0, 0) or node.send_down(1, 0):
        pass
    go_on(node, 0)
    assert node.shard(0).two_phase.decisions
    return client


def settle(node: Node) -> None:
    """Let the node settle while time passes; check that no transaction is left."""
    for _ in range(4):
        node.settle()
        node.now += LATER_MS / 1000
    node.settle()
    for _, shard in node.running_shards():
        two_phase = shard.core.two_phase
        assert not two_phase.parts and not two_phase.doubts and not two_phase.decisions and not two_phase.weight
        pending = [queue.pending for queue in shard.core.state.queues.values()]
        assert all(not each.undecided and not each.count for each in pending)


def left(node: Node) -> tuple[list[bytes], list[bytes]]:
    """Return the messages in source and target."""
    client = open_channel(node, 1)
    return drain(client, SOURCE), drain(client, TARGET)


def kill(node: Node, *shards: int) -> None:
    for shard in shards:
        node.kill_shard(shard)
    for shard in shards:
        node.start_shard(shard)


def test_nobody_sees_it_and_depths_are_those_of_after_the_commit(node: Node) -> None:
    client = prepared(node)
    source, target = node.state(SOURCE), node.state(TARGET)
    assert (source.contents.ready, source.contents.unacked, source.depth) == (0, 3, 1)
    assert (target.contents.ready, target.contents.unacked, target.depth) == (0, 0, 3)
    assert target.depth_bytes > 0 and node.shard(1).state.weight > 0
    settle(node)
    client.take("tx.commit-ok", 1)
    assert (source.depth, target.depth) == (1, 3)
    assert left(node) == ([b"own"], BODIES)


def test_its_acceptor_dies(node: Node) -> None:
    prepared(node)
    node.kill_acceptor(0)
    settle(node)
    client = open_channel(node, 1)
    event = get(client, SOURCE, no_ack=False)
    assert event is not None and (event.body, event.redelivered) == (BODIES[0], True)
    client.send("basic.nack", 1, delivery_tag=event.delivery_tag, requeue=True)
    node.settle()
    assert left(node) == (BODIES, [])


@pytest.mark.parametrize("shards", [(0,), (1,), (0, 1)])
def test_shards_die(node: Node, shards: tuple[int, ...]) -> None:
    """The acceptor lasts long enough to complete the transaction."""
    client = prepared(node)
    kill(node, *shards)
    settle(node)
    client.take("tx.commit-ok", 1)
    assert left(node) == ([b"own"], BODIES)


@pytest.mark.parametrize("shards", [(0,), (1,), (0, 1)])
def test_shards_die_and_its_acceptor(node: Node, shards: tuple[int, ...]) -> None:
    prepared(node)
    node.kill_acceptor(0)
    kill(node, *shards)
    settle(node)
    assert left(node) == (BODIES, [])


@pytest.mark.parametrize("shards", [(), (0,), (1,), (0, 1)])
def test_it_is_decided_and_its_acceptor_dies(node: Node, shards: tuple[int, ...]) -> None:
    decided(node)
    node.kill_acceptor(0)
    kill(node, *shards)
    settle(node)
    assert left(node) == ([b"own"], BODIES)


def test_what_waits_for_a_deciding_shard_that_is_down(node: Node) -> None:
    decided(node)
    node.kill_acceptor(0)
    node.kill_shard(0)
    node.settle()
    assert node.shard(1).two_phase.doubts and node.state(TARGET).contents.ready == 0
    node.start_shard(0)
    settle(node)
    assert left(node) == ([b"own"], BODIES)


def test_what_was_done_and_not_kept_comes_as_redelivered(node: Node) -> None:
    decided(node)
    while node.send_down(0, 0):
        pass
    node.finish(0)
    node.send_up(0, 1)
    node.finish_shard(1)
    assert node.state(TARGET).contents.ready == 3
    node.kill_shard(1, written=False)
    node.start_shard(1)
    settle(node)
    event = get(open_channel(node, 1), TARGET)
    assert event is not None and event.redelivered


def test_transient_messages_die_with_their_shard(node: Node) -> None:
    client = prepared(node, delivery_mode=1)
    kill(node, 1)
    settle(node)
    client.take("tx.commit-ok", 1)
    assert left(node) == ([b"own"], [])


def test_a_queue_of_it_moves_once_it_is_decided(node: Node) -> None:
    decided(node)
    node.kill_acceptor(0)
    node.kill_shard(0)
    results = node.move(TARGET, 2)
    node.settle()
    assert node.shard(1).moving.leaving and not results
    node.start_shard(0)
    settle(node)
    assert results[0]["result"] == "moved"
    assert left(node) == ([b"own"], BODIES)


def test_of_an_earlier_run_of_the_node_persistent_messages_are_left(node: Node) -> None:
    client = begun(node)
    client.publish(1, b"gone", routing_key=TARGET, delivery_mode=1)
    client.send("tx.commit", 1)
    client.read()
    go_on(node, 0, 1)
    (part,) = node.shard(1).two_phase.parts.values()
    record = b"".join(part.record(node.shard(1).state) or ())
    (publish,) = Part.of_record(record, restarted=True).publishes
    assert [publish.batch.record(row)[2] for row in range(publish.batch.count)] == BODIES
    assert publish.batch.common_flags(0, publish.batch.count) & PERSISTENT
    assert sum(each.batch.count for each in Part.of_record(record, restarted=False).publishes) == 4


@pytest.mark.parametrize("damage", [b"", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\x05", b"\x02\x00\x00\x00\xc4"])
def test_what_is_no_record(damage: bytes) -> None:
    with pytest.raises(ValueError, match="not a part of a transaction"):
        split(damage)
