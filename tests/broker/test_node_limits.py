"""Limits of the node: the memory of its processes, the spill, and vhosts that are stopped ahead of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.process.node_memory import private_memory
from penstock.process.process_memory import LEAST
from tests.broker import Broker
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

MIB = 1024 * 1024
HELD = "the node's processes use up its memory: "


def test_memory_of_the_processes(tmp_path: Path) -> None:
    """The limit applies to all memory of the processes; here they exceed it from the start."""
    with Broker(tmp_path, "memory.process_limit=10 MiB") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q")

        def facts() -> dict[str, object]:
            found: dict[str, object] = json.loads(broker.penstock("status", "--json").stdout)["processes"][2]
            return found

        wait_for(lambda: facts()["saturated"], what="a look at the memory")
        assert str(facts()["reason"]).startswith(HELD) and str(facts()["reason"]).endswith(" of 8 MiB")
        channel.publish(b"x", "q")
        assert client.take("connection.blocked").reason.startswith(f"shard 0: {HELD}")
        assert client.channel().depth("q") == 0
        assert "process memory limit reached" in broker.log


@pytest.mark.parametrize("how", ["queue.delete", "queue.purge"])
def test_memory_of_what_is_gone_goes_back(tmp_path: Path, how: str) -> None:
    """Memory goes back at once, because the processes are above their resume mark."""
    options = ("memory_limit=8 GiB", "memory.process_limit=1 GiB", "memory.stop_percent=90", "memory.resume_percent=20")
    with Broker(tmp_path, *options) as broker, Client.connect(broker.address) as client:
        (shard,) = broker.children("shard")
        channel = client.channel()
        channel.call("queue.declare", queue="q")
        before = private_memory(shard)
        for _ in range(20_000):
            channel.publish(bytes(15_000), "q")
        wait_for(lambda: channel.depth("q") == 20_000)
        assert private_memory(shard) - before > 250 * MIB
        channel.call(how, queue="q")
        wait_for(lambda: private_memory(shard) - before < LEAST + 32 * MIB, what="the memory to go back")


def test_the_spill(tmp_path: Path) -> None:
    """Transient messages go to disk for want of memory, up to the spill limit."""
    options = (
        f"memory_limit={8 * MIB}",
        "store.spill_limit=16 MiB",
        "store.stop_percent=50",
        "store.resume_percent=25",
    )
    with Broker(tmp_path, *options) as broker, Client.connect(broker.address, capabilities=CAPABILITIES) as client:
        channel, reader = client.channel(), client.channel()
        channel.call("queue.declare", queue="q")
        channel.call("confirm.select")
        for number in range(1, 600):
            channel.publish(bytes(64 * 1024), "q")
            wait_for(lambda number=number: confirmed(channel) >= number or "connection.blocked" in client.arrived())
            if "connection.blocked" in client.arrived():
                break
        blocked = client.take("connection.blocked")
        assert blocked.reason.startswith("shard 0: its spill is full: 8.") and blocked.reason.endswith(" of 8 MiB")
        count = reader.depth("q")
        for _ in range(count):
            assert reader.get("q")
        client.take("connection.unblocked")
        assert "spill limit reached" in broker.log


def confirmed(channel: Channel) -> int:
    return max((event.delivery_tag for event in channel.pending() if event.name == "basic.ack"), default=0)


def test_the_vhost_that_is_most_over_its_guarantee_is_stopped_first(tmp_path: Path) -> None:
    """The vhost is stopped from the resume mark on; its contents by then depend on when the acceptor checks."""
    options = (f"store.limit={8 * MIB}", "store.stop_percent=90", "store.resume_percent=10")
    with Broker(tmp_path, *options) as broker:
        broker.call("vhost_add", name="v")
        broker.call("permission_set", user="guest", vhost="v", configure=".*", write=".*", read=".*")
        with (
            Client.connect(broker.address, vhost="v") as greedy,
            Client.connect(broker.address, vhost="v") as reader,
            Client.connect(broker.address) as modest,
        ):
            greedy_one, reader_one, modest_one = (client.channel() for client in (greedy, reader, modest))
            for channel in (reader_one, modest_one):
                channel.call("queue.declare", queue="q", durable=True)

            def stopped() -> bool:
                greedy_one.publish(bytes(16 * 1024), "q", delivery_mode=2)
                return "connection.blocked" in [event.name for event in greedy.pending()]

            assert not stopped()
            wait_for(lambda: reader_one.depth("q") == 1)
            modest_one.publish(b"passes", "q", delivery_mode=2)
            wait_for(stopped, what="the greedy vhost to be stopped")
            reason = greedy.take("connection.blocked").reason
            assert reason.startswith("vhost 'v' holds ") and reason.endswith("the node's store is nearly used up")
            modest_one.publish(b"passes", "q", delivery_mode=2)
            wait_for(lambda: modest_one.depth("q") == 2)
            wait_for(lambda: reader_one.get("q") is None, what="the queue to be empty", interval=0)
            greedy.take("connection.unblocked")
