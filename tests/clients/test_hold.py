"""Producers of five libraries, held for a long time by a full queue: they survive, and every message is delivered.

Most clients do not survive a socket that is not read at all (py-amqp: about a second), but they survive the drip.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.flow import most, settled_depth
from tests.broker.ways import each_way, each_way_slowly
from tests.clients.held import Held
from tests.clients.hold import PROGRAMS
from tests.producers import Drain
from tests.raw import Address, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("broker")]

COUNT, SIZE = 6000, 8192
"""48 MiB per producer: many times the room in sockets and for parking."""
LONG = float(os.environ.get("HOLD_SECONDS", "60"))
"""Seconds for which the long test holds producers; 3600 is an hour."""
MARKS = {"qpid.flow_stop_count": 200, "qpid.flow_resume_count": 100}


def wait_full(channel: Channel, queue: str) -> None:
    wait_for(lambda: channel.depth(queue) >= 200, what=f"{queue} full")


def hold(
    address: Address, names: Callable[[str], str], directory: Path, seconds: float, throttle: str = "auto",
    hasty: bool = False,
) -> None:  # fmt: skip
    """Hold one producer of each library for `seconds` by the given means, then consume all their messages."""
    with Client.connect(address) as client:
        channel = client.channel()
        queues = {library: names(library) for library in (*PROGRAMS, "amqplib")}
        for queue in queues.values():
            channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-throttle": throttle})
        producers = [
            Held(library, address, queue, directory, COUNT, SIZE, hasty=hasty) for library, queue in queues.items()
        ]
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


@each_way_slowly
def test_producers_survive_being_held(address: Address, names: Callable[[str], str], tmp_path: Path) -> None:
    hold(address, names, tmp_path, seconds=15)


@each_way
@pytest.mark.slow
@pytest.mark.timeout(LONG + 300)
def test_producers_survive_being_held_for_long(address: Address, names: Callable[[str], str], tmp_path: Path) -> None:
    hold(address, names, tmp_path, LONG, hasty=True)


@pytest.mark.slow
@pytest.mark.timeout(LONG + 300)
@pytest.mark.parametrize("throttle", ["blocked, confirms, park, pause", "pause", "park"])
def test_producers_survive_being_held_for_long_by_other_means(
    address: Address, names: Callable[[str], str], tmp_path: Path, throttle: str
) -> None:
    hold(address, names, tmp_path, LONG, throttle, hasty=True)
