"""A shard's action on a deadlock that is reported to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.limits.features import CREDIT, NACK, REPORT, SPILL
from shard.questions import deadlock
from tests.shard.steps import publish
from tests.simulator.joined.node import Node, open_channel

STOP, RESUME = 20, 10


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def full(node: Node, action: str) -> int:
    """Return the id of a full queue with this action on deadlocks."""
    node.declare("q", **{"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME, "x-deadlock": action})
    publish(open_channel(node), "q", *[b"m"] * (STOP + 1))
    assert node.state("q").saturation.saturated
    return node.state("q").id


def found(node: Node, id: int, *, early: bool) -> str | None:
    action = deadlock(node.shard(0).state, node.shard(0).flow, id, "a circle", reported=early, early=early)
    node.settle(1)
    return action


@pytest.mark.parametrize("action", [REPORT, SPILL, NACK])
def test_only_lending_is_done_early(node: Node, action: str) -> None:
    id = full(node, action)
    assert found(node, id, early=True) == REPORT
    assert node.state("q").saturation.saturated and not node.shard(0).flow.incidents
    assert found(node, id, early=False) == action


def test_it_is_lent_early_once(node: Node) -> None:
    id = full(node, CREDIT)
    assert found(node, id, early=True) == CREDIT
    queue = node.state("q")
    lent = queue.saturation.lent_beyond()
    assert lent[0] > 0 and not queue.saturation.saturated
    assert len(node.shard(0).flow.incidents) == 1
    assert found(node, id, early=True) is None, "those who wait may not have noticed yet"
    publish(open_channel(node), "q", *[b"m"] * (STOP + lent[0]))
    assert queue.saturation.saturated
    assert found(node, id, early=True) == REPORT
    assert queue.saturation.lent_beyond() == lent
    assert found(node, id, early=False) == CREDIT
    assert queue.saturation.lent_beyond() > lent


@pytest.mark.parametrize("early", [True, False])
def test_of_a_queue_that_is_gone(node: Node, early: bool) -> None:
    assert found(node, 99, early=early) == REPORT
