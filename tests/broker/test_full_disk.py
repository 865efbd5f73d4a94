"""A full file system: producers are held with the reason sent, consumers go on, and recovery needs no operator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shard.turns.room import DISK as DISK_FULL
from shard.turns.room import TROUBLES
from tests.broker import Broker
from tests.broker.test_full_store import consumed, lines, shard_facts
from tests.outcomes import Confirms
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SIZE = 64 * 1024
DISK = 48 * 1024 * 1024
FREE = 4 * 1024 * 1024
MOST = DISK // SIZE


def mounted(kind: str, place: Path, image: Path) -> None:
    """Mount a small file system. Skip the test if that is not permitted."""
    commands = {
        "ext4": [["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(place)]],
        "tmpfs": [["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]],
    }
    with image.open("wb") as file:
        file.truncate(DISK)
    for command in commands[kind]:
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{command[0]} is not permitted: {done.stderr.strip()}")


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The data directory of a broker in `tmp_path`, on a disk of its own."""
    place = tmp_path / "data"
    place.mkdir(mode=0o700)
    mounted(request.param, place, tmp_path / "image")
    place.chmod(0o700)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(broker: Broker, confirms: Confirms) -> None:
    """Publish until the disk is full."""
    while not lines(broker, "store in trouble"):
        assert confirms.published < MOST, "the disk should be full by now"
        confirms.publish(b"%d " % confirms.published + bytes(SIZE), "q", delivery_mode=2)
        wait_for(lambda: not confirms.gather() or lines(broker, "store in trouble"))


def use_up(disk: Path, left: int = 0) -> Path:
    """Use up the disk down to `left` bytes, as another program would; return the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while shutil.disk_usage(disk).free > left and file.write(bytes(min(SIZE, DISK))):
            pass
    return filler


def test_a_full_disk_holds_producers_until_there_is_room(tmp_path: Path, disk: Path) -> None:
    """After a crash of the whole node, confirmed messages are there and acked ones are not."""
    with Broker(tmp_path, "store.limit=1 GiB") as broker:
        with Client.connect(broker.address) as client, Client.connect(broker.address) as other:
            channel, consumer = client.channel(), other.channel()
            channel.call("queue.declare", queue="q", durable=True)
            filler = use_up(disk, FREE)
            confirms = Confirms(channel)
            fill(broker, confirms)
            wait_for(lambda: not confirms.gather(), what="confirms of what had left")
            confirms.publish(b"%d " % confirms.published + bytes(SIZE), "q", delivery_mode=2)
            reason = TROUBLES[DISK_FULL]
            assert client.take("connection.blocked").reason == f"shard 0: {reason}"
            assert shard_facts(broker)["reason"] == reason
            assert consumed(consumer, "q", 10) == list(range(10))
            assert confirms.gather()
            filler.unlink()
            client.take("connection.unblocked")
            confirms.wait()
            assert not confirms.nacked
            confirms.publish(b"%d " % confirms.published, "q", delivery_mode=2)
            confirms.wait()
        assert len(lines(broker, "store in trouble")) == len(lines(broker, "store works again")) == 1
        broker.kill_all()
        broker.start()
        with Client.connect(broker.address) as client:
            rest = list(range(10, confirms.published))
            assert consumed(client.channel(), "q", len(rest)) == rest


@pytest.mark.parametrize("crashed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_node_starts_on_a_full_disk_and_can_be_emptied(tmp_path: Path, disk: Path, crashed: bool) -> None:
    """No room is made from outside: acks of consumers free enough for producers to go on."""
    broker = Broker(tmp_path, "store.limit=1 GiB")
    with broker.connect() as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q", durable=True)
        confirms = Confirms(channel)
        fill(broker, confirms)
        wait_for(lambda: not confirms.gather(), what="confirms of what had left")
    if crashed:
        broker.kill_all()
    else:
        broker.stop()
    use_up(disk)
    assert shutil.disk_usage(disk).free < SIZE
    broker.start()
    with broker, broker.connect() as client, broker.connect() as other:
        channel = client.channel()
        more = Confirms(channel)
        more.publish(bytes(SIZE), "q", delivery_mode=2)
        assert client.take("connection.blocked").reason == f"shard 0: {TROUBLES[DISK_FULL]}"
        assert consumed(other.channel(), "q", confirms.published) == list(range(confirms.published))
        client.take("connection.unblocked")
        more.wait()
        assert not more.nacked
