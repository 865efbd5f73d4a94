"""The overshoot of a queue is bounded whatever its producers do, and consumers do not starve meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ops import status
from tests.broker import Broker
from tests.broker.flow import most
from tests.broker.ways import each_way_slowly
from tests.producers import Drain, Ledger, Producers
from tests.raw import JAVA, Address, Client
from tests.repeating import repeated
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

STOP = 10_000
MIB = 1 << 20


class DepthWatch:
    """A client that polls the depth of a queue and keeps the maximum."""

    def __init__(self, address: Address, queue: str) -> None:
        self.client = Client.connect(address)
        self.channel = self.client.channel()
        self.queue = queue
        self.deepest = 0

    def check(self) -> int:
        depth = self.channel.depth(self.queue)
        self.deepest = max(self.deepest, depth)
        return depth

    def checking(self) -> AbstractContextManager[None]:
        """Poll continually, in a thread."""
        return repeated(self.check)


@contextmanager
def watched(address: Address, queue: str, arguments: dict[str, Any]) -> Iterator[DepthWatch]:
    """Declare a queue; yield a watch of its depth."""
    watch = DepthWatch(address, queue)
    with watch.client:
        watch.channel.call("queue.declare", queue=queue, arguments=arguments)
        yield watch


def reach(watch: DepthWatch, seconds: float) -> None:
    """Watch until the queue is full, and for `seconds` after that."""
    wait_for(lambda: watch.check() >= STOP, timeout=60)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watch.check()


@each_way_slowly
@pytest.mark.parametrize("honour", [True, False], ids=["honour", "ignore"])
def test_overshoot_of_fifty_producers(address: Address, queue: str, honour: bool) -> None:
    properties = JAVA if honour else {}
    marks = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": STOP * 7 // 8}
    with watched(address, queue, marks) as watch:
        with Producers(address, [queue] * 50, honour=honour, properties=properties) as producers:
            reach(watch, seconds=2)
            assert watch.deepest <= 12_000
            Drain(watch.client, queue, ledger=Ledger()).take(30_000)
            assert producers.alive == 50
            watch.check()
        assert watch.deepest <= 12_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("honour", [True, False], ids=["honour", "ignore"])
def test_overshoot_and_memory_of_five_hundred_producers(tmp_path: Path, honour: bool) -> None:
    properties = JAVA if honour else {}
    marks = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": STOP * 7 // 8}
    with (
        Broker(tmp_path, acceptors=2, shards=2) as broker,
        watched(broker.address, "q", marks) as watch,
        Producers(broker.address, ["q"] * 500, honour=honour, properties=properties) as producers,
    ):
        reach(watch, seconds=5)
        before = broker.pss()
        reach(watch, seconds=55)
        assert broker.pss() - before < 50 * MIB
        assert watch.deepest <= 12_000
        assert producers.alive == 500


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_overshoot_in_bytes_of_five_hundred_producers(tmp_path: Path) -> None:
    """The overshoot is at most 2 MiB of content, the bound shown in the status."""
    marks = {"qpid.flow_stop_size": 64 * MIB, "qpid.flow_resume_size": 48 * MIB}
    with (
        Broker(tmp_path, acceptors=2, shards=2) as broker,
        watched(broker.address, "q", marks) as watch,
        Producers(broker.address, ["q"] * 500, size=4096) as producers,
    ):
        wait_for(lambda: broker.queues()[0].saturated, timeout=120)
        Drain(watch.client, "q").take(20_000)
        wait_for(lambda: broker.queues()[0].saturated, timeout=120)
        (queue,) = status.collect(tmp_path / "data").queues
        assert queue["over_bytes"] <= queue["over_bytes_bound"] == 2 * MIB
        assert producers.alive == 500


def test_consumers_do_not_starve_while_producers_are_held(tmp_path: Path) -> None:
    """Ten times the contents of a full queue reach its consumer, and the queue never exceeds its bound."""
    marks = {"qpid.flow_stop_count": 2000}
    with (
        Broker(tmp_path, acceptors=2, shards=2) as broker,
        watched(broker.address, "q", marks) as watch,
        Client.connect(broker.address) as client,
        Producers(broker.address, ["q"] * 10) as producers,
    ):
        wait_for(lambda: watch.check() >= 2000)
        drain = Drain(client, "q", prefetch=1000)
        with watch.checking():
            drain.take(20_000)
        assert watch.deepest <= most(2000)
        producers.finish()
        drain.take(producers.written - drain.ledger.total)
        assert settled(watch.check) == 0
