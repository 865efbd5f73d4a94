"""The power goes and the disk has what was flushed: the same rules hold as for crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.faults.disk import Disk
from tests.faults.harms import cut_power
from tests.faults.node import Node
from tests.faults.rounds import SEED, Rounds
from tests.outcomes import Confirms, bodies
from tests.raw import Address, Client

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(300)]
FLUSH_US = 3000
"""A flush takes as long as with a slow disk, so that there is time between what is written and what is kept."""


def rounds(directory: Path, seed: int, count: int, *assignments: str) -> None:
    disk = Disk((directory / "data").resolve(), directory / "disk", sleep_us=FLUSH_US)
    node = Node(directory, *assignments, environment=disk.environment)
    Rounds(node, SEED + seed, [cut_power(disk)]).run(count)


@pytest.mark.parametrize("seed", range(2))
def test_two_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_five_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 5)


@pytest.mark.slow
def test_a_node_that_does_not_wait_for_the_disk_loses_something(tmp_path: Path) -> None:
    """Or else nothing would be shown by the tests above."""
    with pytest.raises(AssertionError, match=r"things wrong|not ready"):
        rounds(tmp_path, 0, 5, "store.durability=none")


def publish(address: Address, first: int, count: int) -> None:
    """Persistent messages, numbered, all confirmed."""
    with Client.connect(address) as client:
        confirms = Confirms(client.channel())
        for number in range(first, first + count):
            confirms.publish(b"%d" % number, "q", delivery_mode=2)
        confirms.wait()


@pytest.mark.slow
@pytest.mark.xfail(reason="LMDB that is not flushed with each commit may be damaged as a whole by a power cut")
@pytest.mark.parametrize("durability", ["interval=200ms", "none"])
def test_what_was_flushed_outlives_the_cut_where_commits_do_not_wait(tmp_path: Path, durability: str) -> None:
    """What came since may be lost, not more."""
    disk = Disk((tmp_path / "data").resolve(), tmp_path / "disk")
    broker = Broker(tmp_path, f"store.durability={durability}", environment=disk.environment)
    chance = random.Random(SEED)
    try:
        with Client.connect(broker.address) as client:
            client.channel().call("queue.declare", queue="q", durable=True)
        publish(broker.address, 0, 100)
        broker.stop()  # all is flushed
        for _ in range(5):
            broker.start()
            publish(broker.address, 100, 300)
            broker.kill_all()
            disk.cut(chance)
        broker.start()
        with Client.connect(broker.address) as client:
            found = bodies(client.channel(), "q")
        assert found[:100] == [b"%d" % number for number in range(100)]
        broker.stop()
    finally:
        broker.kill_all()
