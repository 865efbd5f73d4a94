"""Acceptors killed one after the other while a shard is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from console.flow.overshoot import overshoot
from ops.claim import Pointer
from penstock.memory.gauges import Gauges
from tests.broker import Broker
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

STOP = 400


def has_read(broker: Broker, nbytes: int) -> bool:
    """Whether an acceptor has parked at least `nbytes` bytes that it cannot send."""
    pointer = Pointer.load(broker.directory / "data")
    assert pointer is not None
    with Gauges.open(pointer.gauges, writable=False) as gauges:
        return any(gauges.counters_read("acceptor", index).parked_bytes >= nbytes for index in range(2))


def test_what_dead_acceptors_had_sent_adds_up_to_no_more_than_the_bound(tmp_path: Path) -> None:
    with Broker(tmp_path, acceptors=2, shards=1) as broker:
        declaring = broker.connect()
        arguments = {"x-flow-stop-count": STOP, "x-flow-resume-count": 10}
        declaring.channel().call("queue.declare", queue="work", durable=True, arguments=arguments)
        (shard,) = broker.children("shard")
        os.kill(shard, signal.SIGSTOP)
        try:
            for _ in range(3):
                clients = [broker.connect() for _ in range(8)]
                channels = [client.channel() for client in clients]
                for channel in channels:
                    for number in range(STOP):
                        channel.publish(b"%d" % number, "work")
                wait_for(lambda: has_read(broker, STOP), what="more read than there is room for")
                pid = broker.kill("acceptor", 0)
                broker.wait_replaced("acceptor", pid)
                for client in clients:
                    client.kill()
        finally:
            os.kill(shard, signal.SIGCONT)
        client = broker.connect()
        channel = client.channel()
        for number in range(2 * STOP):
            channel.publish(b"%d" % number, "work")
        wait_for(lambda: broker.queues()[0].saturated, what="the queue is full")
        settled(lambda: broker.queues()[0].ready)
        (queue,) = broker.queues()
        facts = overshoot(queue, acceptors=2)
        assert 0 < facts["beyond_count"] <= facts["over_count_bound"] == 2 * (STOP // 16)
        client.kill()
