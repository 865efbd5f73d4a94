"""A store that is full or not writable: producers are stopped with a reason, consumers go on, nothing is lost."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from router.model.placement import place
from tests.broker import Broker
from tests.faults.disk import Calls, Disk
from tests.frames import Event
from tests.outcomes import Confirms, wait_get
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SIZE = 16 * 1024


def publish_until_held(client: Client, confirms: Confirms, queue: str, most: int) -> Event:
    """Publish persistent messages, each after the previous confirm, until connection.blocked arrives; return it."""
    for number in range(most):
        confirms.publish(b"%d " % number + bytes(SIZE), queue, delivery_mode=2)
        wait_for(lambda: not confirms.gather() or client.pending(), what="a confirm, or connection.blocked")
        if client.pending():
            return client.take("connection.blocked")
    raise AssertionError(f"not held after {most} messages")


def consumed(channel: Channel, queue: str, count: int) -> list[int]:
    """Get and acknowledge `count` messages; return their numbers."""
    numbers = []
    for _ in range(count):
        event = wait_get(channel, queue, no_ack=False)
        numbers.append(int(event.body.split()[0]))
        channel.send("basic.ack", delivery_tag=event.delivery_tag)
    return numbers


def shards(broker: Broker) -> list[dict[str, Any]]:
    processes = json.loads(broker.penstock("status", "--json").stdout)["processes"]
    return [facts for facts in processes if facts["role"] == "shard"]


def shard_facts(broker: Broker) -> dict[str, Any]:
    (facts,) = shards(broker)
    return facts


def lines(broker: Broker, event: str) -> list[dict[str, Any]]:
    """Return the shard's log lines about an event."""
    found = [json.loads(line) for line in broker.log.splitlines() if f'"event":"{event}"' in line]
    return [line for line in found if line["role"] == "shard"]


@contextmanager
def no_file_grows(broker: Broker, nbytes: int) -> Iterator[None]:
    """Make the shard's writes beyond an offset fail as if there were no room: EFBIG (setrlimit(2))."""
    shard = psutil.Process(broker.children("shard")[0])
    before = shard.rlimit(psutil.RLIMIT_FSIZE)
    shard.rlimit(psutil.RLIMIT_FSIZE, (nbytes, before[1]))
    yield
    shard.rlimit(psutil.RLIMIT_FSIZE, before)


def test_a_full_store_holds_its_producers(tmp_path: Path) -> None:
    with Broker(tmp_path, "store.limit=1 MiB") as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q", durable=True)
        confirms = Confirms(channel)
        blocked = publish_until_held(client, confirms, "q", 200)
        assert re.fullmatch(r"shard 0: its store is full: 1\.\d+ of 1 MiB", blocked.reason)
        facts = shard_facts(broker)
        assert facts["saturated"] is True
        assert facts["reason"] == blocked.reason.removeprefix("shard 0: ")
        assert f"holds all its producers: {facts['reason']}" in broker.penstock("status").stdout
        with Client.connect(broker.address) as other:
            assert consumed(other.channel(), "q", 20) == list(range(20))
            client.take("connection.unblocked")
            confirms.wait()
            assert not confirms.nacked
            rest = list(range(20, confirms.published))
            assert consumed(other.channel(), "q", len(rest)) == rest
        wait_for(lambda: lines(broker, "store has room again"))
        assert len(lines(broker, "store limit reached")) == 1
        assert shard_facts(broker)["reason"] is None


def test_a_store_that_cannot_be_written_holds_its_producers(tmp_path: Path) -> None:
    """While the store cannot be written, confirms wait and acks are kept; the shard recovers by itself."""
    with Broker(tmp_path) as broker:
        with Client.connect(broker.address) as client, Client.connect(broker.address) as other:
            channel, consumer = client.channel(), other.channel()
            channel.call("queue.declare", queue="q", durable=True)
            confirms = Confirms(channel)
            for number in range(10):
                confirms.publish(b"%d " % number + bytes(SIZE), "q", delivery_mode=2)
            confirms.wait()
            data = tmp_path / "data" / "shards" / "0" / "data.mdb"
            with no_file_grows(broker, data.stat().st_size):
                numbered = iter(range(10, 100))
                for number in numbered:
                    confirms.publish(b"%d " % number + bytes(SIZE), "q", delivery_mode=2)
                    wait_for(lambda: not confirms.gather() or lines(broker, "store in trouble"))
                    if confirms.open:
                        break
                (said,) = lines(broker, "store in trouble")
                assert said["reason"].startswith("its store cannot be written: ")
                waiting = set(confirms.open)
                confirms.publish(b"%d " % next(numbered) + bytes(SIZE), "q", delivery_mode=2)
                assert client.take("connection.blocked").reason == f"shard 0: {said['reason']}"
                assert shard_facts(broker)["reason"] == said["reason"]
                assert consumed(consumer, "q", 5) == list(range(5))
                assert confirms.gather() >= waiting
            client.take("connection.unblocked")
            confirms.wait()
            assert not confirms.nacked
        assert len(lines(broker, "store in trouble")) == 1
        (over,) = lines(broker, "store works again")
        assert over["seconds"] > 0
        broker.wait_replaced("shard", broker.kill("shard"))
        with Client.connect(broker.address) as client:
            rest = list(range(5, confirms.published))
            assert consumed(client.channel(), "q", len(rest)) == rest


def test_a_shard_whose_store_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    """The log has the reason; the other shard serves meanwhile, and this one once its store is there again."""
    with Broker(tmp_path, shards=2) as broker:
        queues = [f"q-{number}" for number in range(8)]
        with Client.connect(broker.address) as client:
            channel = client.channel()
            confirms = Confirms(channel)
            for number, queue in enumerate(queues):
                channel.call("queue.declare", queue=queue, durable=True)
                confirms.publish(b"%d" % number, queue, delivery_mode=2)
            confirms.wait()
        file = tmp_path / "data" / "shards" / "0" / "data.mdb"
        aside = file.with_name("aside")
        file.rename(aside)
        file.write_bytes(b"x" * 10_000)
        pid = broker.kill("shard")
        wait_for(lambda: f'"reason":"{file.parent}: ' in broker.log, what="why it does not start")
        (served,) = {facts["index"] for facts in shards(broker) if facts["state"] == "ready"}
        assert served == 1
        other = next(queue for queue in queues if place("/", queue, range(2), {}) == served)
        with Client.connect(broker.address) as client:
            assert consumed(client.channel(), other, 1) == [queues.index(other)]
        aside.rename(file)
        broker.wait_replaced("shard", pid)
        with Client.connect(broker.address) as client:
            for number, queue in enumerate(queues):
                if queue != other:
                    assert consumed(client.channel(), queue, 1) == [number]


@pytest.mark.parametrize(
    ("durability", "error", "calls", "reason"),
    [
        ("interval=20ms", errno.EIO, Calls.SYNC, "cannot be flushed to the disk: Input/output error"),
        ("commit", errno.EROFS, Calls.WRITE | Calls.OPEN, "cannot be written: Read-only file system"),
        ("none", errno.ENOSPC, Calls.WRITE, "cannot be written: No space left on device"),
    ],
)
def test_trouble_of_the_disk_holds_producers_until_it_is_over(
    tmp_path: Path, durability: str, error: int, calls: Calls, reason: str
) -> None:
    disk = Disk((tmp_path / "data").resolve(), tmp_path / "disk", cuts=False)
    with Broker(tmp_path, f"store.durability={durability}", environment=disk.environment) as broker:
        with Client.connect(broker.address) as client:
            channel = client.channel()
            channel.call("queue.declare", queue="q", durable=True)
            confirms = Confirms(channel)
            with disk.trouble(error, calls):
                for number in range(3):
                    confirms.publish(b"%d " % number, "q", delivery_mode=2)
                (said,) = wait_for(lambda: lines(broker, "store in trouble"))
                assert said["reason"] == f"its store {reason}"
                confirms.publish(b"3 ", "q", delivery_mode=2)
                assert client.take("connection.blocked").reason == f"shard 0: its store {reason}"
                assert shard_facts(broker)["reason"] == said["reason"]
            client.take("connection.unblocked")
            confirms.wait()
            assert not confirms.nacked
            assert consumed(channel, "q", 4) == [0, 1, 2, 3]
        assert len(lines(broker, "store works again")) == 1
