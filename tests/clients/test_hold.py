"""Producers of four libraries, held for a long time by a full queue: alive afterwards, and everything delivered.

Most clients do not survive a socket that is not read at all (py-amqp: about a second); they do survive ours.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.flow import most, settled_depth
from tests.broker.process import ROOT, Broker
from tests.clients import amqplib
from tests.clients.hold import LIBRARIES
from tests.producers import Drain
from tests.raw import Channel, Client
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker

COUNT, SIZE = 6000, 8192
"""48 MiB a producer: many times what sockets and parking take."""
MARKS = {"qpid.flow_stop_count": 200, "qpid.flow_resume_count": 100}


class Held:
    """A producer in a process of its own."""

    def __init__(self, library: str, broker: Broker, queue: str, directory: Path) -> None:
        self.library = library
        self.queue = queue
        self.output = directory / f"{library}.txt"
        arguments = [broker.address.url, queue, str(COUNT), str(SIZE)]
        environment = None
        if library == "amqplib":
            environment = amqplib.environment()
            arguments[0] += "?heartbeat=5"
            command = ["node", str(amqplib.PROGRAMS / "hold.js"), *arguments]
        else:
            command = [sys.executable, "-m", "tests.clients.hold", library, *arguments]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)

    @property
    def said(self) -> str:
        return self.output.read_text()

    def check_held(self) -> None:
        assert self.process.poll() is None, f"{self.library} has ended: {self.said}"
        assert "alive" not in self.said, f"{self.library} was not held"

    def check_alive(self) -> None:
        """It has published all and then used its connection."""
        assert self.process.wait(PATIENCE) == 0, f"{self.library}: {self.said}"
        assert "alive" in self.said, f"{self.library}: {self.said}"


def wait_full(channel: Channel, queue: str) -> None:
    wait_for(lambda: channel.depth(queue) >= 200, what=f"{queue} full")


def hold(broker: Broker, names: Callable[[str], str], directory: Path, seconds: float) -> None:
    """Hold one producer of each library for so long, then take out all that they publish."""
    with Client.connect(broker.address) as client:
        channel = client.channel()
        queues = {library: names(library) for library in (*LIBRARIES, "amqplib")}
        for queue in queues.values():
            channel.call("queue.declare", queue=queue, arguments=MARKS)
        producers = [Held(library, broker, queue, directory) for library, queue in queues.items()]
        try:
            for producer in producers:
                wait_full(channel, producer.queue)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for producer in producers:
                    producer.check_held()
                time.sleep(0.2)
            for producer in producers:
                assert settled_depth(channel, producer.queue) <= most(200)
                Drain(client, producer.queue).take(COUNT)
                producer.check_alive()
        finally:
            for producer in producers:
                producer.process.kill()
                producer.process.wait()


def test_producers_survive_being_held(broker: Broker, names: Callable[[str], str], tmp_path: Path) -> None:
    hold(broker, names, tmp_path, seconds=15)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_producers_survive_being_held_for_a_minute(broker: Broker, names: Callable[[str], str], tmp_path: Path) -> None:
    hold(broker, names, tmp_path, seconds=60)
