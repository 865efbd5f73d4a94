"""The real shard process, as its supervisor, the router and a restarted node see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.batch.batch_cy import PERSISTENT
from penstock.control import control
from penstock.memory.gauges import QueueGauge
from penstock.process.process import REFUSED_STATUS, take_reason
from router.core import SNAPSHOT
from router.model.records import LEAVING
from shard.contents.queue_cy import Queue
from shard.store.journal import Journal
from shard.store.store import Store
from tests.alone import Alone
from tests.shard.making import batch_of
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.long


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def alone(data: Path) -> Iterator[Alone]:
    with Alone("shard", data) as alone:
        yield alone


def leave(data: Path, queue_id: int, *bodies: bytes) -> None:
    """Leave persistent messages of a queue in the store, as an earlier run of the node does."""
    store = Store(data / "shards" / "0", 1 << 24, durable=False, epoch=1, shard=0)
    journal = Journal(store.read)
    queue = Queue(queue_id, None, store.starts << 36, journal, True)
    queue.enqueue(batch_of(*bodies, flags=PERSISTENT), 0, len(bodies))
    store.write(journal.hand_over())
    store.end()


def gauge_of(alone: Alone, slot: int) -> QueueGauge:
    gauge = alone.gauges.queue_read(slot)
    assert gauge is not None
    return gauge


def test_it_is_ready_once_it_has_the_topology(alone: Alone) -> None:
    assert alone.requests.poll(PATIENCE * 1000)
    assert not alone.reports.poll(0)
    alone.wait_ready()
    alone.announce("started", "router", 0, 2)
    assert alone.answer() == (SNAPSHOT, {"have": 1})
    assert alone.stop() == 0
    assert "Traceback" not in alone.log


def test_a_queue_of_an_earlier_run_has_its_persistent_messages_at_once(data: Path) -> None:
    leave(data, 1, b"1", b"2")
    leave(data, 2, b"of a queue that is no more")
    with Alone("shard", data) as alone:
        queue = alone.router.done("queue_declare", name="q", durable=True)
        assert queue["queue_id"] == 1
        alone.wait_ready()
        gauge = gauge_of(alone, queue["slot"])
        assert (gauge.queue_id, gauge.ready, gauge.ready_bytes) == (1, 2, 2)
        assert alone.stop() == 0
        assert "Traceback" not in alone.log
    store = Store(data / "shards" / "0", 1 << 24, durable=False, epoch=1)
    assert [(queue_id, segment.count) for queue_id, segment in store.segments()] == [(1, 2)]
    store.close()


def test_it_follows_the_topology(alone: Alone) -> None:
    alone.wait_ready()
    queue = alone.router.done("queue_declare", name="q")
    alone.publish()
    wait_for(lambda: alone.gauges.queue_read(queue["slot"]), what="the queue in the gauges")
    assert gauge_of(alone, queue["slot"]).name == "q"
    alone.router.done("queue_delete", queue_id=queue["queue_id"])
    alone.publish()
    wait_for(lambda: alone.gauges.queue_read(queue["slot"]) is None, what="its end")


def test_a_store_that_is_none_is_refused_with_its_reason(data: Path) -> None:
    (data / "shards" / "0").mkdir(parents=True)
    (data / "shards" / "0" / "data.mdb").write_bytes(b"no store" * 10_000)
    with Alone("shard", data) as alone:
        assert alone.process.wait(PATIENCE) == REFUSED_STATUS
        assert str(data / "shards" / "0") in take_reason(alone.node.runtime, "shard", 0)
        assert "Traceback" not in alone.log


def test_it_answers_questions_of_the_operator(alone: Alone) -> None:
    queue = alone.router.done("queue_declare", name="q")
    alone.wait_ready()
    socket = alone.node.control_of("shard", 0, 1)
    assert control.call(socket, "queues", {}) == [queue["queue_id"]]


@pytest.mark.parametrize("leaving", [False, True])
def test_the_empty_store_of_a_shard_that_is_removed_goes_with_it(alone: Alone, leaving: bool) -> None:
    if leaving:
        alone.router.authority.ledger.record(["shard", 0, LEAVING], durable=False)
        alone.router.recorded += alone.router.authority.ledger.take_steps()
    alone.wait_ready()
    store = alone.node.settings.data / "shards" / "0"
    assert (store / "data.mdb").exists()
    assert alone.stop() == 0
    assert (store / "data.mdb").exists() != leaving
