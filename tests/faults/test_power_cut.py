"""Power cuts, after which the disk has only flushed data for certain: the same rules hold as for crashes."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.faults.disk import Disk
from tests.faults.harms import cut_power
from tests.faults.node import Node
from tests.faults.rounds import SEED, Rounds
from tests.outcomes import Confirms, bodies
from tests.raw import Address, Client, HungUp
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(900)]
FLUSH_US = 3000
"""The time of a flush, as on a slow disk, so that there is a delay between writing data and keeping it."""


def rounds(directory: Path, seed: int, count: int, *assignments: str) -> None:
    disk = Disk((directory / "data").resolve(), directory / "disk", sleep_us=FLUSH_US)
    node = Node(directory, *assignments, environment=disk.environment)
    Rounds(node, SEED + seed, [cut_power(disk)]).run(count)


@pytest.mark.parametrize("seed", range(1))
def test_two_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_five_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 5)


@pytest.mark.slow
def test_a_node_that_does_not_wait_for_the_disk_loses_something(tmp_path: Path) -> None:
    """Without waiting for the disk messages are lost; otherwise the tests above would show nothing."""
    with pytest.raises(AssertionError, match=r"things wrong|not ready"):
        rounds(tmp_path, 0, 5, "store.durability=none")


def checkpoints(broker: Broker) -> bytes:
    return (broker.directory / "data" / "shards" / "0" / "checkpoint").read_bytes()


def wait_flushed(broker: Broker) -> None:
    """Wait until a flush that begins after the call is over; something must be written all the time.

    A checkpoint can be read before it is on the disk; it is there once the next one can be read.
    """
    for _ in range(3):
        before = checkpoints(broker)
        wait_for(lambda before=before: checkpoints(broker) != before, what="a flush")


class Publisher(threading.Thread):
    """Publishes persistent messages, numbered from `first`, until the broker dies; `confirmed` is the next number."""

    def __init__(self, address: Address, first: int) -> None:
        super().__init__()
        self.confirmed = first
        self._client = Client.connect(address)
        self._confirms = Confirms(self._client.channel())

    def run(self) -> None:
        with self._client, suppress(HungUp, OSError):
            while True:
                self._confirms.publish(b"%d" % self.confirmed, "q", delivery_mode=2)
                self._confirms.wait()
                self.confirmed += 1


@pytest.mark.parametrize("durability", ["interval=50ms", pytest.param("none", marks=pytest.mark.slow)])
def test_what_was_flushed_outlives_the_cut_where_commits_do_not_wait(tmp_path: Path, durability: str) -> None:
    """At a power cut only messages confirmed after the flush may be lost, the last ones first; at the node's death,
    none.
    """
    disk = Disk((tmp_path / "data").resolve(), tmp_path / "disk")
    broker = Broker(tmp_path, f"store.durability={durability}", environment=disk.environment)
    chance = random.Random(SEED)
    try:
        with Client.connect(broker.address) as client:
            client.channel().call("queue.declare", queue="q", durable=True)
        there = 0
        for cut in (True, False, True):
            publisher = Publisher(broker.address, there)
            publisher.start()
            wait_for(lambda publisher=publisher, there=there: publisher.confirmed > there + 20)
            safe = publisher.confirmed
            wait_flushed(broker)
            broker.kill_all()
            publisher.join()
            if cut:
                disk.cut(chance)
            broker.start()
            with Client.connect(broker.address) as client:
                found = bodies(client.channel(), "q")
                assert found == [b"%d" % number for number in range(len(found))]
                assert len(found) >= (safe if cut else publisher.confirmed)
                there = publish_again(client, found)
        broker.stop()
    finally:
        broker.kill_all()


def publish_again(client: Client, messages: list[bytes]) -> int:
    confirms = Confirms(client.channel())
    for body in messages:
        confirms.publish(body, "q", delivery_mode=2)
    confirms.wait()
    return len(messages)
