"""Lost wake-ups: which changes of a queue count as not broadcast."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.wakeups import WakeUps
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from tests.acceptor.test_core import FLOW, drain, publish
from tests.simulator.joined.node import Node, open_channel

ID, SLOT = 1, 5


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=1, queues=8, pid=os.getpid()) as made:
        made.queue_open(SLOT, ID, "/", "orders", 1)
        yield made


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def change(gauges: Gauges, epoch: int) -> None:
    """Let the queue stop or resume, for the `epoch`th time."""
    gauges.queue_write(SLOT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, epoch, 0, 0, 0, 0, 0, 0)


def queue_gate_of(gauges: Gauges) -> QueueGate:
    return QueueGate(gauges, 1, ID, SLOT, "/", "orders", QueueLimits(None, None, "flow", Marks(4, 2)))


def test_a_change_that_is_not_broadcast_by_the_poll_after_next_is_lost_and_logged(gauges: Gauges) -> None:
    wakeups, queue_gate = WakeUps(gauges), queue_gate_of(gauges)
    wakeups.poll([queue_gate])
    change(gauges, 1)
    wakeups.poll([queue_gate])
    assert wakeups.lost == 0, "its broadcast may be on the way"
    with capture_logs() as lines:
        wakeups.poll([queue_gate])
    assert wakeups.lost == 1
    assert lines == [{"event": "wake-up lost", "log_level": "warning", "queue": "orders", "vhost": "/", "epoch": 1}]
    wakeups.poll([queue_gate])
    assert wakeups.lost == 1, "once"


@pytest.mark.parametrize("received_at", [1, 2])
def test_a_change_that_is_broadcast_before_or_after_the_poll_is_not_lost(gauges: Gauges, received_at: int) -> None:
    wakeups, queue_gate = WakeUps(gauges), queue_gate_of(gauges)
    wakeups.poll([queue_gate])
    change(gauges, 3)
    for poll in (1, 2):
        if poll == received_at:
            wakeups.on_broadcast(ID, 3)
            wakeups.on_broadcast(ID, 2)  # a late one
        wakeups.poll([queue_gate])
    wakeups.poll([queue_gate])
    assert wakeups.lost == 0


def test_an_older_broadcast_is_not_that_of_the_change(gauges: Gauges) -> None:
    wakeups, queue_gate = WakeUps(gauges), queue_gate_of(gauges)
    wakeups.poll([queue_gate])
    change(gauges, 3)
    wakeups.on_broadcast(ID, 2)
    wakeups.poll([queue_gate])
    wakeups.poll([queue_gate])
    assert wakeups.lost == 1


def test_changes_while_no_channel_waited_do_not_count(gauges: Gauges) -> None:
    wakeups, queue_gate = WakeUps(gauges), queue_gate_of(gauges)
    wakeups.poll([])
    change(gauges, 1)
    for _ in range(3):
        wakeups.poll([queue_gate])
    assert wakeups.lost == 0


@pytest.mark.parametrize("ends", ["deleted", "shard died"])
def test_a_queue_that_is_gone_or_whose_shard_died_has_lost_none(gauges: Gauges, ends: str) -> None:
    wakeups, queue_gate = WakeUps(gauges), queue_gate_of(gauges)
    wakeups.poll([queue_gate])
    change(gauges, 1)
    wakeups.poll([queue_gate])
    if ends == "deleted":
        queue_gate.close()
    else:
        wakeups.forget()
    wakeups.poll([queue_gate])
    assert wakeups.lost == 0


# Broadcasts of a whole node


@pytest.mark.parametrize(("flow", "lost"), [("keep", 0), ("late", 0), ("lost", 1)])
def test_a_lost_wake_up_is_counted(node: Node, flow: str, lost: int) -> None:
    """Recovery from a lost wake-up does not hide it."""
    node.declare("q", **FLOW)
    client, taker = open_channel(node), open_channel(node)
    publish(client, "q", 16)
    node.settle()
    node.recheck(0)
    drain(taker, "q", 4)
    taker.read()
    while node.gauges.flow_epoch(node.queue("q").slot) < 2:
        node.finish(0)
        while node.send_up(0, 0):
            node.finish_shard(0)
            node.send_down(0, 0, flow=flow)
    node.recheck(0)
    if flow == "late":
        node.stray(0)
    node.recheck(0)
    assert node.core(0).gates.wakeups.lost == lost
    node.settle()
    assert node.state("q").contents.totals.published > 5
