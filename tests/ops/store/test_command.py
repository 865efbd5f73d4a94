"""`penstock store` as a user runs it, on the data of a real node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.frames import Event
from tests.ops.store.making import fill
from tests.outcomes import Confirms, wait_get
from tests.raw import Channel, Client

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "ops", "store", *arguments],
        cwd=ROOT,
        env={**clean, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def publish(channel: Channel) -> None:
    """Publish messages of many kinds to durable queues; have some of them delivered and returned."""
    arguments = {"plain": {}, "priority": {"x-max-priority": 5}, "ttl": {"x-message-ttl": 3_600_000}}
    confirms = Confirms(channel)
    for queue, more in arguments.items():
        channel.call("queue.declare", queue=queue, durable=True, arguments=more)
        channel.call("queue.bind", queue=queue, exchange="amq.topic", routing_key=f"{queue}.#")
    for number in range(50):
        for queue in arguments:
            headers = {"number": number, "queue": queue}
            confirms.publish(
                b"%d" % number * number, f"{queue}.x", "amq.topic", delivery_mode=2, priority=number % 4,
                headers=headers, message_id=f"m{number}", content_type="text/plain",
            )  # fmt: skip
            confirms.publish(b"transient", f"{queue}.x", "amq.topic")
    confirms.wait()
    returned = [channel.get("plain", no_ack=False) for _ in range(4)]
    for event in returned[1:]:
        assert event
        channel.send("basic.nack", delivery_tag=event.delivery_tag, requeue=True)
    assert returned[0]
    channel.send("basic.ack", delivery_tag=returned[0].delivery_tag)


def drained(channel: Channel, queue: str) -> list[tuple[bytes, bool, dict[str, object]]]:
    found = []
    while event := channel.get(queue):
        found.append(seen(event))
    return found


def seen(event: Event) -> tuple[bytes, bool, dict[str, object]]:
    return event.body, event.redelivered, dict(event.properties)


def counted(store: dict[str, object]) -> list[object]:
    return [store[name] for name in ("shard", "queues", "segments", "messages", "message_bytes", "problems")]


@pytest.mark.broker
def test_a_node_that_runs_is_checked(tmp_path: Path) -> None:
    """The check prints the same lines as for a stopped node, and the node is not affected."""
    with Broker(tmp_path, shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        publish(channel)
        assert broker.penstock("store", "check").returncode == 0
        damaged = set()
        for path in tmp_path.glob("data/shards/*/data.mdb"):
            places = [found.start() for found in re.finditer(b"(?:49){49}", path.read_bytes())]
            with path.open("r+b") as file:
                for place in places:
                    file.seek(place)
                    file.write(b"?")
            damaged |= {path.parent.name} if places else set()
        checked = broker.penstock("store", "check")
        assert (checked.returncode, checked.stderr) == (1, "")
        assert damaged
        answer = [line for line in checked.stdout.splitlines() if line.endswith("its contents are damaged")]
        assert {line.split(":")[0] for line in answer} == {f"shard {shard}" for shard in damaged}
        assert wait_get(channel, "plain")
        broker.stop()
        again = broker.penstock("store", "check")
        assert again.returncode == 1
        assert [line for line in again.stdout.splitlines() if line.endswith("its contents are damaged")] == answer


@pytest.mark.broker
def test_what_a_node_had_is_there_on_another_directory(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    broker = Broker(tmp_path / "one", shards=2)
    with Client.connect(broker.address) as client:
        publish(client.channel())
    data = str(tmp_path / "one" / "data")
    while_it_runs = penstock("check", "--json", "--data", data)
    compacted = penstock("compact", "--data", data)
    assert compacted.returncode == 2
    assert compacted.stderr.startswith(f"penstock: the data directory {data} is in use by another broker")
    broker.stop()

    checked = penstock("check", "--json", "--data", data)
    assert checked.returncode == 0, checked.stdout
    stores = json.loads(checked.stdout)["stores"]
    assert [counted(store) for store in json.loads(while_it_runs.stdout)["stores"]] == [
        counted(each) for each in stores
    ]
    assert [store["problems"] for store in stores] == [0, 0]
    assert sum(store["messages"] for store in stores) >= 149
    assert penstock("compact", "--data", data).stdout.splitlines()[-1].startswith("gained ")
    dumped = penstock("dump", str(tmp_path / "dump"), "--data", data)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    assert dumped.stdout.startswith("3 queues, 149 messages, ")
    other = str(tmp_path / "other" / "data")
    restored = penstock("restore", str(tmp_path / "dump"), "--data", other)
    assert (restored.returncode, restored.stdout) == (0, dumped.stdout), restored.stderr
    assert penstock("check", "--data", other).returncode == 0
    again = penstock("restore", str(tmp_path / "dump"), "--data", other)
    assert (again.returncode, again.stderr) == (2, f"penstock: {other} is not empty\n")

    found = []
    for directory in ("one", "other"):
        with Broker(tmp_path / directory, shards=2) as broker, Client.connect(broker.address) as client:
            channel = client.channel()
            found.append({queue: drained(channel, queue) for queue in ("plain", "priority", "ttl")})
            channel.publish(b"routed", "plain.y", "amq.topic")
            assert wait_get(channel, "plain").body == b"routed"
    assert found[0] == found[1]
    assert [len(messages) for messages in found[0].values()] == [49, 50, 50]


def test_damage_is_told_in_lines(tmp_path: Path) -> None:
    for shard in range(3):
        fill(tmp_path, shard, {7: 3000})
    with (tmp_path / "shards" / "1" / "data.mdb").open("r+b") as file:
        file.truncate(3 * 4096)
    (tmp_path / "shards" / "2" / "data.mdb").write_bytes(b"x" * 10_000)
    checked = penstock("check", "--data", str(tmp_path))
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "shard 1: " in checked.stdout
    assert "shard 2: " in checked.stdout
    assert "shard 0: " not in checked.stdout
    assert "3000" in checked.stdout
    for command in (["compact"], ["dump", str(tmp_path / "dump")]):
        done = penstock(*command, "--data", str(tmp_path))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("penstock: ")
    assert not list(tmp_path.glob("dump*"))
    assert not list(tmp_path.glob("shards/*/compacting"))


@pytest.mark.parametrize("command", ["check", "compact", "dump", "backup"])
def test_without_a_data_directory(tmp_path: Path, command: str) -> None:
    file = [str(tmp_path / "file")] if command in ("dump", "backup") else []
    done = penstock(command, *file, "--data", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (2, f"penstock: there is no data directory {tmp_path}/none\n")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = penstock("restore", str(tmp_path / "none"), "--data", str(tmp_path / "data"))
    said = f"penstock: {tmp_path}/none is not a backup, or one that was cut short: it has no manifest.json\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert not (tmp_path / "data").exists()


def test_without_a_file(tmp_path: Path) -> None:
    done = penstock("restore", str(tmp_path / "none"), "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (2, f"penstock: cannot read {tmp_path}/none: no such file\n")
