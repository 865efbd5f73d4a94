"""A disk that refuses calls, now and then or for a while: no crash, no loss, no false confirm, and full recovery."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.faults.disk import Calls, Disk
from tests.faults.harms import refuse, refuse_and_cut, refuse_and_kill
from tests.faults.node import Node
from tests.faults.rounds import SEED, Rounds
from tests.outcomes import Confirms, bodies, wait_depth, wait_get
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only"), pytest.mark.timeout(900)]


def rounds(directory: Path, seed: int, count: int) -> None:
    disk = Disk((directory / "data").resolve(), directory / "disk")
    node = Node(directory, environment=disk.environment)
    harms = [refuse(disk), refuse(disk), refuse_and_kill(disk), refuse_and_cut(disk)]
    Rounds(node, SEED + seed, harms).run(count)


@pytest.mark.parametrize("seed", range(1))
def test_three_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_ten_rounds(tmp_path: Path, seed: int) -> None:
    rounds(tmp_path, seed, 10)


def publish_until_blocked(client: Client, confirms: Confirms) -> str:
    """Publish one message after the other until connection.blocked arrives; return its reason."""

    def named() -> bool:
        confirms.publish(b"%d" % confirms.published, "q", delivery_mode=2)
        return "connection.blocked" in [event.name for event in client.pending()]

    wait_for(named)
    return str(client.take("connection.blocked").reason)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (errno.ENOSPC, Calls.WRITE),
        pytest.param(errno.EIO, Calls.WRITE | Calls.SHORT, marks=pytest.mark.slow),
        (errno.EIO, Calls.SYNC),
        (errno.EROFS, Calls.WRITE | Calls.SYNC | Calls.RESIZE | Calls.OPEN),
        pytest.param(errno.EACCES, Calls.WRITE | Calls.OPEN, marks=pytest.mark.slow),
    ],
)
def test_producers_are_told_and_consumers_go_on(tmp_path: Path, error: int, calls: Calls) -> None:
    """Nothing is confirmed during the trouble. Afterwards the same processes confirm everything, and a power cut loses
    nothing.
    """
    disk = Disk((tmp_path / "data").resolve(), tmp_path / "disk")
    broker = Broker(tmp_path, environment=disk.environment)
    try:
        with Client.connect(broker.address) as client, Client.connect(broker.address) as other:
            consumer, confirms = other.channel(), Confirms(client.channel())
            consumer.call("queue.declare", queue="q", durable=True)
            for _ in range(20):
                confirms.publish(b"%d" % confirms.published, "q", delivery_mode=2)
            confirms.wait()
            processes = [broker.children(role) for role in ("router", "shard", "acceptor")]
            with disk.trouble(error, calls):
                reason = publish_until_blocked(client, confirms)
                assert reason.startswith("shard 0: its store ") and reason.endswith(os.strerror(error))
                assert reason.removeprefix("shard 0: ") in broker.penstock("status", "--json").stdout
                taken = take(consumer, 10)
                refused = disk.hits
                wait_for(lambda: disk.hits > refused, what="a commit that is tried again")
                assert confirms.gather() == set(range(21, confirms.published + 1))
            client.take("connection.unblocked")
            confirms.wait()
            assert not confirms.nacked
            assert [broker.children(role) for role in ("router", "shard", "acceptor")] == processes
            settled = Confirms(consumer)  # behind the acks
            settled.publish(b"last", "q", delivery_mode=2)
            settled.wait()
        broker.kill_all()
        disk.cut(random.Random(0))
        broker.start()
        with Client.connect(broker.address) as client:
            channel = client.channel()
            wait_depth(channel, "q", confirms.published - len(taken) + 1)
            published = [b"%d" % number for number in range(confirms.published)]
            assert taken + bodies(channel, "q") == [*published, b"last"]
        broker.stop()
    finally:
        broker.kill_all()


def take(channel: Channel, count: int) -> list[bytes]:
    """Get and ack `count` messages; return their bodies."""
    events = [wait_get(channel, "q", no_ack=False) for _ in range(count)]
    channel.send("basic.ack", delivery_tag=events[-1].delivery_tag, multiple=True)
    return [event.body for event in events]


def test_a_node_ends_in_order_while_a_slow_disk_writes(tmp_path: Path) -> None:
    """Messages that expire while the shard writes its last commit have no effect any more."""
    disk = Disk((tmp_path / "data").resolve(), tmp_path / "disk", sleep_us=100_000)
    with Broker(tmp_path, environment=disk.environment) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q", durable=True)
        for milliseconds in range(0, 3000, 10):
            channel.publish(b"m", "q", delivery_mode=2, expiration=str(milliseconds))
        broker.stop()
