"""Contents that consumers will soon want are read in time; what cannot be read is not tried over and over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shard.store.journal import Journal
from tests.shard.steps import publish
from tests.shard.test_damage import damage
from tests.simulator.joined.node import Node, open_channel

MEMORY = 500_000


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True, memory_limit=MEMORY) as node:
        yield node


@pytest.mark.parametrize("unacked", [0, 100])
@pytest.mark.parametrize("percent", range(0, 80, 10))
def test_what_is_read_ahead_stays_in_memory(
    node: Node, monkeypatch: pytest.MonkeyPatch, percent: int, unacked: int
) -> None:
    """However much memory is used for what cannot be paged out, and however many messages are unacked between the
    first and the second that are ready.
    """
    loads = []
    load = Journal.load

    def counted(journal: Journal, queue: int, segment: Any) -> Any:
        loads.append(segment)
        assert len(loads) < 100, "the same is read again and again"
        return load(journal, queue, segment)

    node.declare("q")
    publisher, consumer, holder = open_channel(node), open_channel(node), open_channel(node)
    for _ in range(60):
        publish(publisher, "q", *[bytes(1000)] * 10)
    for _ in range(unacked):
        holder.call("basic.get", 1, queue="q", no_ack=False)
    if unacked:
        holder.send("basic.nack", 1, delivery_tag=1, requeue=True)
    node.shard(0).state.weight += MEMORY * percent // 100
    monkeypatch.setattr(Journal, "load", counted)
    consumer.call("basic.qos", 1, prefetch_count=1)
    consumer.call("basic.consume", 1, queue="q")
    for _ in range(20):
        node.settle()
        consumer.send("basic.ack", 1, delivery_tag=consumer.take("basic.deliver", 1).delivery_tag)
    node.settle()


def test_damage_behind_what_a_consumer_has_is_not_read_again_and_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    load = Journal.load

    def counted(journal: Journal, queue: int, segment: Any) -> Any:
        loads.append(segment)
        return load(journal, queue, segment)

    node.declare("q", durable=True)
    publisher = open_channel(node)
    for body in (b"first", b"damaged", b"last"):
        publish(publisher, "q", body, delivery_mode=2)
    node.kill_shard(0)
    damage(node.stored / "0", 1)
    node.start_shard(0)
    node.shard(0).stalls.set_aside = node.shards[0].store.set_aside
    node.settle()
    monkeypatch.setattr(Journal, "load", counted)
    consumer = open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=1)
    consumer.call("basic.consume", 1, queue="q")
    for _ in range(50):
        node.finish_shard(0)
    assert len(loads) < 5
    assert consumer.take("basic.deliver", 1).body == b"first"
    consumer.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert consumer.take("basic.deliver", 1).body == b"last"
