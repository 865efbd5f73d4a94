"""Five gigabytes in a thousand queues and a hundred consumers at their heads, in a quarter of a gigabyte of memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import pytest

from ops.claim import Pointer
from penstock.memory.gauges import Gauges
from tests.broker import Broker
from tests.outcomes import wait_depth
from tests.producers import STAMP, Producers
from tests.raw import Address, Channel, Client
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.usefixtures("penstock_only"),
    pytest.mark.timeout(900),
]

LIMIT = 256 * 1024 * 1024
QUEUES = [f"backlog-{number}" for number in range(1000)]
CONSUMED = QUEUES[::10]
COUNT = 1280
SIZE = 4096
PUBLISHERS = 2


class Memory(NamedTuple):
    """Resident bytes of processes: anonymous, of shared memory, and of files (the stores, which the system may
    reclaim).
    """

    anonymous: int
    shared: int
    files: int


def memory(broker: Broker) -> Memory:
    """Return the memory of all shards, each page divided among the processes that share it (proc(5), smaps_rollup)."""
    sums = dict.fromkeys(("Pss_Anon", "Pss_Shmem", "Pss_File"), 0)
    for pid in broker.children("shard"):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0]) * 1024
    return Memory(*sums.values())


def publish(address: Address, queues: Sequence[str], persistent: bool, over: Event) -> None:
    """Publish COUNT messages to each queue, in a process of its own; keep the connections until `over` is set."""
    with Producers(address, queues, size=SIZE, count=COUNT, batch=16, persistent=persistent):
        over.wait()


class Reader:
    """A consumer at the head of a queue, which checks the order; `taken` counts its messages."""

    def __init__(self, client: Client, queue: str) -> None:
        self.channel: Channel = client.channel()
        self.channel.call("basic.qos", prefetch_count=10)
        self.channel.call("basic.consume", queue=queue, consumer_tag=queue)
        self.taken = 0

    def taken_by_now(self) -> int:
        """Take and acknowledge the messages that have arrived; return the number taken so far."""
        tag = None
        while any(event.name == "basic.deliver" for event in self.channel.pending()):
            event = self.channel.take("basic.deliver")
            assert STAMP.unpack_from(event.body)[1] == self.taken and not event.redelivered
            tag = event.delivery_tag
            self.taken += 1
        if tag is not None:
            self.channel.send("basic.ack", delivery_tag=tag, multiple=True)
        return self.taken

    def go_on(self, count: int) -> None:
        """Take `count` more messages, as far as there are any."""
        goal = min(self.taken + count, COUNT)
        wait_for(lambda: self.taken_by_now() >= goal, what="the consumer to go on")


def published(gauges: Gauges) -> int:
    """Return the number of messages that have entered queues."""
    queues = (gauges.queue_read(slot) for slot in gauges.queue_slots())
    return sum(queue.counters.published for queue in queues if queue)


@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "transient"])
def test_memory_stays_within_its_limit(tmp_path: Path, persistent: bool) -> None:
    """Anonymous memory stays below 1.25 times the limit, the processes' own needs included; consumers go on all the
    time.
    """
    spawn = multiprocessing.get_context("spawn")
    over = spawn.Event()
    with Broker(tmp_path, f"memory_limit={LIMIT}", shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in QUEUES:
            channel.call("queue.declare", queue=queue, durable=True)
        publishers = [
            spawn.Process(
                target=publish, args=(broker.address, QUEUES[number::PUBLISHERS], persistent, over), daemon=True
            )
            for number in range(PUBLISHERS)
        ]
        for publisher in publishers:
            publisher.start()
        readers = [Reader(Client.connect(broker.address), queue) for queue in CONSUMED]
        pointer = Pointer.load(tmp_path / "data")
        assert pointer
        gauges = Gauges.open(pointer.gauges, writable=False)
        seen = [memory(broker)]
        while published(gauges) < COUNT * len(QUEUES):
            assert all(publisher.is_alive() for publisher in publishers)
            for _ in range(10):
                for reader in readers:
                    reader.taken_by_now()
            seen.append(memory(broker))
        over.set()
        gauges.close()
        most = Memory(*map(max, zip(*seen, strict=True)))
        assert most.anonymous < 1.25 * LIMIT, most
        for reader in readers:
            reader.go_on(100)
            reader.channel.client.close()
        for queue in QUEUES[1::100]:
            wait_depth(channel, queue, COUNT)
        for publisher in publishers:
            publisher.join()
