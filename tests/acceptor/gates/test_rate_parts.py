"""An acceptor's part of a limited rate: the code for waiting channels, and the division of tokens."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.rate_parts import WEIGHTS, RatePart, code_of
from penstock.memory.gauges import Gauges
from tests.acceptor.gates.test_rates import depth, limit, opened, publish
from tests.outcomes import jain
from tests.simulator.joined.node import Node

BUCKET, NOW = 77, 5_000_000_000
DEPTHS = 1000, 2000
EMPTY = 0, 0


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=2, shards=1, queues=8, pid=os.getpid()) as made:
        yield made


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("a", shard=0)
        node.bind("x", "a", type="direct", key="k.a")
        yield node


@given(st.integers(1, 100_000))
def test_a_number_of_channels_is_coded_to_within_three_percent(waiting: int) -> None:
    code = code_of(waiting)
    assert 1 <= code <= 255
    assert WEIGHTS[code] == pytest.approx(waiting, rel=0.03)


def test_none_is_coded_as_none_and_more_than_any_as_the_most() -> None:
    assert code_of(0) == 0 == WEIGHTS[0]
    assert code_of(10**9) == 255 == len(WEIGHTS) - 1


def test_each_acceptor_gets_the_tokens_of_its_share_of_the_waiting_channels(gauges: Gauges) -> None:
    one, other = RatePart(gauges, 0), RatePart(gauges, 1)
    for now in (NOW, NOW + 1, NOW + 1 + 400):
        one.update(BUCKET, now, 3, EMPTY, DEPTHS)
        other.update(BUCKET, now, 1, EMPTY, DEPTHS)
    assert one.own == pytest.approx([300, 300], rel=0.04)
    assert other.own == pytest.approx([100, 100], rel=0.04)
    assert one.own[0] + other.own[0] <= 401


def test_what_is_saved_up_is_no_more_than_the_bucket_holds(gauges: Gauges) -> None:
    part = RatePart(gauges, 0)
    for turn in range(1, 5):
        part.update(BUCKET, NOW + 900 * turn, 1, EMPTY, DEPTHS)
    assert part.own == [1000, 2000]


def test_the_first_waiting_channels_share_what_the_bucket_has(gauges: Gauges) -> None:
    one, other = RatePart(gauges, 0), RatePart(gauges, 1)
    one.update(BUCKET, NOW, 1, (800, 1600), DEPTHS)
    assert one.own == [800, 1600]
    other.update(BUCKET, NOW, 1, (800, 1600), DEPTHS)
    assert other.own == [400, 800]


def test_a_part_that_is_used_up_leaves_the_upper_half_of_the_bucket(gauges: Gauges) -> None:
    part = RatePart(gauges, 0)
    part.update(BUCKET, NOW, 1, EMPTY, DEPTHS)
    assert part.free(0, 400, 1000) == 0
    assert part.free(0, 700, 1000) == 200, "others do not use it"
    part.own[0] = 300
    assert part.free(0, 400, 1000) == 300 and part.free(0, 200, 1000) == 200


def test_while_no_channel_waits_all_of_the_bucket_is_free(gauges: Gauges) -> None:
    part = RatePart(gauges, 0)
    assert part.free(0, 400, 1000) == 400
    part.update(BUCKET, NOW, 1, EMPTY, DEPTHS)
    part.update(BUCKET, NOW + 10, 0, EMPTY, DEPTHS)
    assert part.seen == 0 and part.free(0, 400, 1000) == 400
    assert gauges.bucket_waiting(BUCKET, NOW + 10, 1, 0) == 0, "and others see that none waits"


def test_what_is_owed_is_no_more_than_the_bucket_holds(gauges: Gauges) -> None:
    part = RatePart(gauges, 0)
    part.update(BUCKET, NOW, 1, EMPTY, DEPTHS)
    part.spend(0, 600, 1000)
    assert part.own == [-600, 0]
    part.spend(0, 600, 1000)
    assert part.own == [-1000, 0]


# Parts of a whole node


def test_the_acceptors_share_it_by_those_who_wait(node: Node) -> None:
    """Five channels wait at one acceptor and one at the other: each gets a sixth, and together they get everything."""
    limit(node, "queues", max_rate=600)
    clients = [opened(node, int(who > 0)) for who in range(6)]
    for who, one in enumerate(clients):
        for _ in range(2000):
            one.publish(1, bytes([who]), exchange="x", routing_key="k.a")
    node.settle(rechecks=10)
    before, began = depth(node), node.now
    reader = opened(node, 0)
    for _ in range(before):
        reader.send("basic.get", 1, queue="a", no_ack=True)
    node.settle()
    reader.events[1].clear()
    for _ in range(400):
        node.now += 0.01
        node.meter(0)
        node.meter(1)
        node.settle()
    came = depth(node)
    assert came == pytest.approx(600 * (node.now - began), abs=60), "and what the bucket had"
    for _ in range(came):
        reader.send("basic.get", 1, queue="a", no_ack=True)
    node.settle()
    found = Counter(event.body[0] for event in reader.events[1] if event.name == "basic.get-ok")
    assert len(found) == 6 and jain(found.values()) >= 0.95


def test_what_another_acceptor_that_died_had_waiting_is_not_lost(node: Node) -> None:
    limit(node, "queues", max_rate=100)
    for acceptor in (0, 1):
        publish(opened(node, acceptor), 3000)
    node.settle(rechecks=5)
    node.kill_acceptor(0)
    node.settle(rechecks=5)
    before, began = depth(node), node.now
    node.settle(rechecks=30)
    assert depth(node) - before >= 0.95 * 100 * (node.now - began)
