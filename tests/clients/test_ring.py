"""Two real clients that feed each other's full queues and acknowledge on their held channels: both go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.process import ROOT, Broker
from tests.clients import amqplib
from tests.clients.ring import LIBRARIES
from tests.conftest import Names
from tests.outcomes import wait_depth
from tests.raw import Channel
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

STOP, FIRST, COUNT = 20, 21, 1000
"""1 MiB each way, far more than a connection may have parked, so their sockets are paused too."""
PATIENCE = 120.0


def started(library: str, url: str, source: str, target: str, output: Path) -> subprocess.Popen[bytes]:
    arguments = [url, source, target, str(COUNT), str(FIRST)]
    if library == "amqplib":
        command, environment = ["node", str(amqplib.PROGRAMS / "ring.js"), *arguments], amqplib.environment()
    else:
        command, environment = [sys.executable, "-m", "tests.clients.ring", library, *arguments], None
    with output.open("wb") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


@pytest.mark.parametrize("library", [*sorted(LIBRARIES), "amqplib"])
def test_two_clients_in_a_ring_with_both_queues_full(
    broker: Broker, channel: Channel, names: Names, tmp_path: Path, library: str
) -> None:
    queues = [names("left"), names("right")]
    for queue in queues:
        channel.call("queue.declare", queue=queue, arguments={"x-flow-stop-count": STOP})
        filler = channel.client.channel()  # one channel per queue, so none is held for both
        for _ in range(FIRST):
            filler.publish(b"", queue)
    wait_for(lambda: all(each.saturated for each in broker.queues() if each.name in queues), what="full queues")
    left, right = queues
    outputs = [tmp_path / "left.txt", tmp_path / "right.txt"]
    clients = [
        started(library, broker.address.url, left, right, outputs[0]),
        started(library, broker.address.url, right, left, outputs[1]),
    ]
    try:
        for client, output in zip(clients, outputs, strict=True):
            assert client.wait(PATIENCE) == 0, output.read_text()
    finally:
        for client in clients:
            client.kill()
            client.wait()
    assert all(output.read_text().endswith("done\n") for output in outputs)
    for queue in queues:
        wait_depth(channel, queue, 0)
