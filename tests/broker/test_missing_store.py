"""Stores that are missing, damaged or from another time: no silent loss, and no wrong delivery."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.broker import Broker
from tests.broker.process import ROOT
from tests.outcomes import Confirms, bodies
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
FILE = "shards/0/data.mdb"
BODIES = [b"%d" % number for number in range(300)]


def publish(broker: Broker) -> None:
    with Client.connect(broker.address) as client:
        confirms = Confirms(client.channel())
        confirms.channel.call("queue.declare", queue="q", durable=True)
        for body in BODIES:
            confirms.publish(body + b"x" * 500, "q", delivery_mode=2)
        confirms.wait()


def found(broker: Broker) -> list[bytes]:
    with Client.connect(broker.address) as client:
        return [body.rstrip(b"x") for body in bodies(client.channel(), "q")]


def refused(broker: Broker) -> str:
    """Return the one line that the node prints instead of starting."""
    node = subprocess.run(broker.command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert node.returncode == 2
    (line,) = node.stderr.splitlines()
    return line


def zeroed(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(8192))


HARMS: list[tuple[Callable[[Path], object], str]] = [
    (lambda data: zeroed(data / FILE), "shards/0: it is damaged"),
    (lambda data: os.truncate(data / FILE, 0), "shards/0: it is missing"),
    (lambda data: os.truncate(data / FILE, (data / FILE).stat().st_size // 2), "shards/0: it is damaged"),
    (lambda data: (data / FILE).unlink(), "shards/0: it is missing"),
    (lambda data: shutil.rmtree(data / "shards/0"), "shards/0: it is missing"),
    (lambda data: [path.unlink() for path in data.glob("topology.sqlite*")], "topology.sqlite: it is missing"),
]


def test_nothing_is_lost_without_a_word(tmp_path: Path) -> None:
    data, before = tmp_path / "data", tmp_path / "before"
    with Broker(tmp_path) as broker:
        publish(broker)
        broker.stop()
        shutil.copytree(data, before)
        for harm, named in HARMS:
            harm(data)
            line = refused(broker)
            assert f"{data}/{named}" in line
            assert "`penstock store accept` goes on without it" in line
            shutil.rmtree(data)
            shutil.copytree(before, data)
        broker.start()
        assert found(broker) == BODIES
        broker.stop()
        shutil.rmtree(data / "shards/0")
        shutil.copytree(before / "shards/0", data / "shards/0")
        assert f"{data}/shards/0: it is from another time" in refused(broker)
        (data / FILE).unlink()
        accepted = broker.penstock("store", "accept")
        assert accepted.returncode == 0
        assert accepted.stdout.startswith(f"shard 0 begins empty, {data}/shards/0 is now ")
        broker.start()
        assert found(broker) == []


def test_a_shard_whose_store_is_cut_off_while_it_runs_says_so_and_does_not_die_of_it_again(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        publish(broker)
        path = tmp_path / "data" / FILE
        whole = path.read_bytes()
        os.kill(broker.children("shard")[0], signal.SIGSTOP)
        os.truncate(path, 3 * 4096)
        broker.kill("shard")
        wait_for(lambda: "it is damaged: reading it ended in SIG" in broker.log, what="a word of the damage")
        path.write_bytes(whole)
        assert found(broker) == BODIES
        assert "killed by SIGBUS" not in broker.log


def test_what_is_damaged_is_never_delivered(tmp_path: Path) -> None:
    """One byte changes in each of 19 bodies, and a page of contents; all undamaged messages arrive, in order."""
    with Broker(tmp_path) as broker:
        publish(broker)
        broker.stop()
        path = tmp_path / "data" / FILE
        data = bytearray(path.read_bytes())
        places = [place for place in range(0, len(data), 4096) if data[place : place + 60] == b"x" * 60]
        for place in places[2:40:2]:
            data[place + 30] = ord("Z")
        data[places[-1] : places[-1] + 4096] = bytes(range(256)) * 16
        path.write_bytes(data)
        broker.start()
        came = found(broker)
        assert came == [body for body in BODIES if body in set(came)], "wrong, or out of order"
        words = [orjson.loads(line) for line in broker.log.splitlines() if '"messages are damaged' in line]
        assert words
        assert len(came) + sum(word["messages"] for word in words) == len(BODIES)
        assert all(Path(word["set_aside"]).exists() for word in words)
        publish(broker)
        assert found(broker) == BODIES
        broker.stop()
        broker.start()
        assert found(broker) == []


@pytest.mark.parametrize("topology", [True, False])
def test_a_node_begins_with_what_was_saved(tmp_path: Path, topology: bool) -> None:
    data, new = tmp_path / "data", tmp_path / "new"
    with Broker(tmp_path) as broker:
        publish(broker)
        broker.stop()
        if not topology:
            (data / "topology.sqlite").unlink()
        stored = (data / FILE).read_bytes()
        (data / FILE).write_bytes(bytes(8192) + stored[8192:])
        assert ("salvage" if topology else "topology.sqlite: it is missing") in refused(broker)
        saved = broker.penstock("store", "salvage", str(new / "data"))
        assert saved.returncode == 1, saved.stderr
        assert " 300 " in saved.stdout
        with Broker(new) as later:
            queue = "q" if topology else "salvaged.1"
            with Client.connect(later.address) as client:
                came = [body.rstrip(b"x") for body in bodies(client.channel(), queue)]
            assert came == BODIES
        shutil.rmtree(data)
        shutil.copytree(new / "data", data)
        broker.start()
