"""Backlogs beyond the memory limit: contents go to disk and come back, whole, in order and in time."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from tests.broker import Broker
from tests.outcomes import wait_depth
from tests.producers import STAMP, Drain, Producers
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

LIMIT = 64 * 1024 * 1024
QUEUES = 16
COUNT = 2500
SIZE = 4096


def memory(broker: Broker) -> int:
    """Return the memory of all shards that belongs to no file, in bytes."""
    total = 0
    for pid in broker.children("shard"):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) * 1024
    return total


def drain(channel: Channel, queue: str, number: int, count: int) -> list[bool]:
    """Consume `count` messages of one producer from a queue, in order; return the redelivered flag of each."""
    channel.call("basic.qos", prefetch_count=300)
    channel.call("basic.consume", queue=queue, consumer_tag=queue)
    redelivered = []
    for expected in range(count):
        event = channel.take("basic.deliver")
        assert STAMP.unpack_from(event.body) == (number, expected)
        redelivered.append(event.redelivered)
        if expected % 100 == 99 or expected == count - 1:
            channel.send("basic.ack", delivery_tag=event.delivery_tag, multiple=True)
    channel.call("basic.cancel", consumer_tag=queue)
    return redelivered


@pytest.mark.parametrize("persistent", [True, False])
def test_a_backlog_beyond_memory(tmp_path: Path, persistent: bool) -> None:
    queues = [f"backlog-{i}" for i in range(QUEUES)]
    with Broker(tmp_path, f"memory_limit={LIMIT}") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in queues:
            channel.call("queue.declare", queue=queue, durable=persistent)
        before = memory(broker)
        producers = Producers(broker.address, queues, size=SIZE, count=COUNT, persistent=persistent)
        with producers:
            wait_for(lambda: producers.done, timeout=90, what="everything to be published")
            for queue in queues:
                wait_depth(channel, queue, COUNT)
        assert memory(broker) - before < LIMIT < QUEUES * COUNT * SIZE
        for number in (3, 12):
            assert not any(drain(client.channel(), queues[number], number, COUNT))
        broker.wait_replaced("shard", broker.kill("shard"))
        for number in (0, 15):
            if persistent:  # messages not yet in the store are sent again, perhaps behind the first answer
                wait_depth(channel, queues[number], COUNT)
                drain(client.channel(), queues[number], number, COUNT)
            else:  # messages that were only in memory are gone
                assert 0 < channel.depth(queues[number]) <= COUNT
        assert memory(broker) < before + LIMIT


def test_purging_and_deleting_give_the_disk_back(tmp_path: Path) -> None:
    with Broker(tmp_path, f"memory_limit={8 * 1024 * 1024}") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        path = tmp_path / "data" / "shards" / "0"
        sizes = []
        for _ in range(4):
            channel.call("queue.declare", queue="again", durable=True)
            with Producers(broker.address, ["again"], size=SIZE, count=3000, persistent=True) as producers:
                wait_for(lambda producers=producers: producers.done, timeout=60, what="everything to be published")
                wait_depth(channel, "again", 3000)
            assert channel.call("queue.purge", queue="again").messages == 3000
            channel.call("queue.delete", queue="again")
            sizes.append(os.stat(path / "data.mdb").st_blocks * 512)
        assert sizes[-1] < 2 * sizes[0] + 3000 * SIZE


@pytest.mark.parametrize(
    ("count", "size"),
    [
        pytest.param(60_000, 1000, id="small"),
        pytest.param(1_000_000, 256, id="million", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_a_backlog_of_a_queue_that_spills(tmp_path: Path, count: int, size: int) -> None:
    """A backlog that spills stops no producer, keeps memory flat and is delivered in order."""
    with Broker(tmp_path, f"memory_limit={4 * LIMIT}") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="spill", arguments={"x-overflow": "spill", "x-max-length-bytes": 1_000_000})
        with Producers(broker.address, ["spill"], size=size, count=count) as producers:
            wait_for(lambda: channel.depth("spill") > 20_000, what="some to arrive")
            before = memory(broker)
            wait_for(lambda: producers.done, timeout=300, what="everything to be published")
            wait_depth(channel, "spill", count)
            assert producers.flow_stops == 0
        assert memory(broker) - before < 16 * 1024 * 1024 < count * size
        Drain(client, "spill").take(count)
        assert channel.depth("spill") == 0


def test_the_disk_bounds_what_a_queue_spills(tmp_path: Path) -> None:
    """At the spill limit producers are held with the reason shown, and go on once there is room."""
    count = 20_000
    with Broker(tmp_path, "store.spill_limit=4 MiB") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="spill", arguments={"x-overflow": "spill", "x-max-length": 100})
        with Producers(broker.address, ["spill"], size=1000, count=count):
            wait_for(lambda: "spill limit reached" in broker.log, what="the spill to be full")
            held = wait_for(lambda: orjson.loads(broker.penstock("flow", "--json").stdout), what="somebody to be held")
            assert "its spill is full" in str(held)
            Drain(client, "spill").take(count)
