"""A shard that hands over leaves its next incarnation what only its memory had, and nothing that was settled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.contents.segment_cy import Segment
from tests.shard.steps import dlx, get, publish
from tests.shard.test_incarnations import delivered, ready
from tests.simulator.joined.node import Node, open_channel

KINDS = [{}, {"x-max-priority": 3}, {"x-message-ttl": 3_600_000}]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True) as node:
        yield node


def hand_over(node: Node) -> None:
    """End a shard as one that hands over, and start its next incarnation."""
    for _ in node.shard(0).spill_all():
        pass
    while node.commit_shard(0):
        pass
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()


@given(
    kind=st.sampled_from(KINDS),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    prefetch=st.integers(1, 12),
    fates=st.lists(st.sampled_from(["ack", "requeue", "keep"]), max_size=12),
    persistent=st.booleans(),
    times=st.integers(1, 2),
)
def test_nothing_is_lost_and_nothing_settled_comes_back(
    kind: dict[str, int], sizes: list[int], prefetch: int, fates: list[str], persistent: bool, times: int
) -> None:
    with Node(stores=True) as node:
        node.declare("q", durable=persistent, **kind)
        client, other = open_channel(node), open_channel(node)
        number, left = 0, set()
        for size in sizes:
            bodies = [b"%d" % each for each in range(number, number + size)]
            publish(client, "q", *bodies, delivery_mode=1, priority=number % 4)
            number, left = number + size, left | set(bodies)
        client.call("basic.qos", 1, prefetch_count=prefetch)
        client.call("basic.consume", 1, queue="q", consumer_tag="c")
        node.settle()
        in_hand = [body for body, _ in delivered(client)]
        kept = dict(enumerate(in_hand, 1))
        client.call("basic.cancel", 1, consumer_tag="c")
        for tag, fate in zip(list(kept), fates, strict=False):
            if fate == "ack":
                client.send("basic.ack", 1, delivery_tag=tag)
                left.discard(kept.pop(tag))
            elif fate == "requeue":
                client.send("basic.nack", 1, delivery_tag=tag, requeue=True)
                kept.pop(tag)
        node.settle()
        seen = set(in_hand)
        before = ready(node)
        for _ in range(times):
            hand_over(node)
            assert ready(node) == before
        found = {}
        while (got := get(other, "q")) is not None:
            assert got.body not in found
            found[got.body] = got.redelivered
        assert set(found) == left - set(kept.values())
        assert {body for body, again in found.items() if again} == seen & set(found)
        for tag in kept:
            client.send("basic.ack", 1, delivery_tag=tag)
        node.settle()
        assert ready(node) == (0, 0)


def test_a_lease_is_kept(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    publish(client, "q", b"leased", b"acked", b"ready")
    client.call("basic.qos", 1, prefetch_count=1)
    client.call(
        "basic.consume", 1, queue="q", consumer_tag="c", arguments={"x-lease": "work", "x-lease-timeout": 60000}
    )
    node.settle()
    assert delivered(client) == [(b"leased", False)]
    client.call("basic.cancel", 1, consumer_tag="c")
    before = ready(node)
    hand_over(node)
    assert ready(node) == before


def test_a_segment_whose_messages_are_all_settled_is_not_written(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.declare("q", **dlx("nowhere"))
    client = open_channel(node)
    publish(client, "q", b"one", b"two")
    assert get(client, "q") and get(client, "q")
    assert list(node.shard(0).spill_all()) == []
    publish(client, "q", b"three", b"four")
    assert get(client, "q")
    (written,) = list(node.shard(0).spill_all())
    assert written > 0
    assert list(node.shard(0).spill_all()) == [], "each is spilled once"
    assert isinstance(node.state("q").contents.survivors()[0][0], Segment)
