"""A file system without room: producers are held and told why, consumers go on, and all goes on by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.broker.test_full_store import consumed, lines, shard_facts
from tests.outcomes import Confirms
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SIZE = 16 * 1024
DISK = 48 * 1024 * 1024
FREE = 4 * 1024 * 1024
MOST = 2 * FREE // SIZE


def mounted(kind: str, place: Path, image: Path) -> None:
    """A small file system of its own. The test is skipped where nobody may mount one."""
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


def test_a_full_disk_holds_producers_until_there_is_room(tmp_path: Path, disk: Path) -> None:
    """What was confirmed is there after a crash of all, what was acked is not."""
    with Broker(tmp_path, "store.limit=1 GiB") as broker:
        with Client.connect(broker.address) as client, Client.connect(broker.address) as other:
            channel, consumer = client.channel(), other.channel()
            channel.call("queue.declare", queue="q", durable=True)
            filler = disk / "filler"
            filler.write_bytes(bytes(shutil.disk_usage(disk).free - FREE))
            confirms = Confirms(channel)
            while not lines(broker, "store in trouble"):
                assert confirms.published < MOST, "the disk should be full by now"
                confirms.publish(b"%d " % confirms.published + bytes(SIZE), "q", delivery_mode=2)
                wait_for(lambda: not confirms.gather() or lines(broker, "store in trouble"))
            confirms.publish(b"%d " % confirms.published + bytes(SIZE), "q", delivery_mode=2)
            reason = f"its store cannot be written: {os.strerror(ENOSPC)}"
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
