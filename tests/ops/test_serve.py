"""`penstock serve` and `penstock status` as a user runs them, with the real processes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pika
import psutil
import pytest

from ops.claim import claimed
from tests.broker import Broker
from tests.ops.test_cli import penstock
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


def test_status_shows_queues_with_their_marks(broker: Broker) -> None:
    name = "status [of] it"
    arguments = {"x-max-length": 10, "x-overflow": "flow"}
    with pika.BlockingConnection(pika.URLParameters(broker.address.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, arguments=arguments)
        for _ in range(3):
            channel.basic_publish("", name, b"four")
        assert channel.queue_declare(name, passive=True).method.message_count == 3
        data = str(broker.directory / "data")
        done = penstock("status", "--data", data, "--json")
        table = penstock("status", "--data", data)
        channel.queue_delete(name)
    assert done.returncode == table.returncode == 0
    facts = json.loads(done.stdout)
    (queue,) = [queue for queue in facts["queues"] if queue["name"] == name]
    assert (queue["vhost"], queue["ready"], queue["ready_bytes"], queue["saturated"]) == ("/", 3, 12, False)
    assert (queue["stop_count"], queue["resume_count"]) == (8, 7)
    assert sum(process["connections"] for process in facts["processes"]) >= 1
    assert name in table.stdout


def test_no_process_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    broker = Broker(tmp_path, acceptors=2, shards=2)
    try:
        wait_for(lambda: len(broker.processes()) == 8, what="all of its processes")
        family = broker.processes()
        broker.process.kill()
        broker.process.wait()
        _, alive = psutil.wait_procs(family, timeout=PATIENCE)
        assert not alive
    finally:
        broker.kill_all()
    status = penstock("status", "--data", str(tmp_path / "data"))
    assert (status.returncode, status.stdout) == (1, "")
    assert status.stderr.endswith("did not stop cleanly)\n")
    with claimed(tmp_path / "data"):
        pass  # claiming removes its leftovers


def test_the_number_of_shards_belongs_to_the_data_unless_it_is_given(tmp_path: Path) -> None:
    """The default of half the machine's cores is for new data only: the machine may be smaller than last time."""
    with Broker(tmp_path, shards=3) as broker:
        with broker.connect() as client:
            for number in range(12):
                client.channel().call("queue.declare", queue=f"q{number}", durable=True)
        broker.stop()
        at = broker.command.index("--shards")
        given, broker.command[at : at + 2] = broker.command[at : at + 2], []
        assert given == ["--shards", "3"]
        broker.start()
        assert len(broker.children("shard")) == 3
        with broker.connect() as client:
            assert [client.channel().depth(f"q{number}") for number in range(12)] == [0] * 12


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = penstock("serve", "--port", str(port), "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"penstock: cannot listen on 127.0.0.1:{port}: the port is taken\n"
