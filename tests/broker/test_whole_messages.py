"""Limits count whole messages: here mostly headers, at a broker with limits in a node's proportions."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from ops import status
from tests.broker import Broker
from tests.outcomes import wait_depth
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

MIB = 1 << 20
TASK = {"lang": "py", "task": "app.tasks.add", "argsrepr": "a" * 400, "kwargsrepr": "k" * 400, "origin": "gen@host"}
BODY = bytes(100)
COUNT, BATCH = 10_000, 500


def publish_all(channel: Channel) -> None:
    """Publish all messages with confirms, one batch at a time."""
    channel.call("confirm.select")
    for start in range(0, COUNT, BATCH):
        for _ in range(BATCH):
            channel.publish(BODY, routing_key="tasks", headers=TASK)
        confirmed = start
        while confirmed < start + BATCH:
            confirmed = channel.take("basic.ack").delivery_tag


@pytest.mark.long
def test_a_backlog_of_tasks_is_paged_and_holds_nobody(tmp_path: Path) -> None:
    """10,000 tasks of 1 KB, with bodies of 100 bytes, are more than twice the node's memory limit."""
    limit = 4 * MIB
    with Broker(tmp_path, f"memory_limit={limit}") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="tasks")
        publish_all(channel)
        wait_depth(channel, "tasks", COUNT)
        found = status.collect(tmp_path / "data")
        (tasks,) = found.queues
        assert tasks["ready_bytes"] == COUNT * len(BODY) < limit
        assert tasks["whole_bytes"] > COUNT * 900 > 2 * limit
        wait_for(lambda: status.collect(tmp_path / "data").node["contents"] <= limit // 2, what="the rest is paged out")
        assert not any(facts.get("saturated") for facts in status.collect(tmp_path / "data").processes)
        channel.call("queue.purge", queue="tasks")
        wait_for(lambda: status.collect(tmp_path / "data").queues[0]["whole_bytes"] == 0)


def test_headers_hold_producers_at_a_limit_in_bytes(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        reader = client.channel()
        reader.call("queue.declare", queue="q", arguments={"x-max-length-bytes": 1_000_000, "x-overflow": "flow"})
        with Client.connect(broker.address) as producer:
            channel = producer.channel()
            for _ in range(60):
                channel.publish(b"", routing_key="q", headers={"h": "h" * 50_000})
            wait_for(lambda: status.collect(tmp_path / "data").queues[0]["saturated"])
            (queue,) = status.collect(tmp_path / "data").queues
            assert 15 <= queue["ready"] <= 19 and queue["ready_bytes"] == 0
            assert 800_000 < queue["whole_bytes"] <= 800_000 * 17 // 16 + 51_000
            (shard,) = orjson.loads(broker.penstock("shard", "list", "--json").stdout)
            assert shard["bytes"] == queue["whole_bytes"]
