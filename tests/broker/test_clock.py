"""Durations stay right when the machine's clock is set and when the machine is rebooted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from penstock.files.kept_clock import FILE_NAME
from tests.broker.process import Broker
from tests.faults.clock import WallClock
from tests.outcomes import Confirms, wait_depth
from tests.penstock.telemetry.reading import rows
from tests.raw import Closed
from tests.waiting import wait_for

HOUR = 3600
LONG, SHORT = "long", "short"
QUICK = ("telemetry.frame_seconds=0.1", "telemetry.file_seconds=0.5")

pytestmark = pytest.mark.broker


class Machine:
    """A broker on a machine whose clock can be set, with two durable queues: a long TTL (10 min) and a short one."""

    def __init__(self, directory: Path) -> None:
        self.clock = WallClock(directory / "clock")
        self.broker = Broker(directory, *QUICK, shards=2, environment=self.clock.environment)
        self.connect()
        for name, milliseconds in ((LONG, 600_000), (SHORT, 1_500)):
            self.channel.call("queue.declare", queue=name, durable=True, arguments={"x-message-ttl": milliseconds})

    def connect(self) -> None:
        self.channel = self.broker.connect().channel()
        self.confirms = Confirms(self.channel)

    def publish(self, *queues: str) -> None:
        for queue in queues:
            self.confirms.publish(b"message", queue, delivery_mode=2)
        self.confirms.wait()

    def restart(self, seconds: int, another_boot: bool = False) -> None:
        """Restart the node with the clock set `seconds` ahead; `another_boot`: as after a reboot of the machine."""
        self.broker.stop()
        self.clock.set(seconds)
        if another_boot:
            file = self.broker.directory / "data" / FILE_NAME
            file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), "boot": "another"}))
        self.broker.start()
        self.connect()

    def reported(self, event: str) -> dict[str, Any]:
        """Return the one line of the log about an event, once it is there."""

        def lines() -> list[dict[str, Any]]:
            found = [json.loads(line) for line in self.broker.log.splitlines() if line.startswith("{")]
            return [line for line in found if line["event"].startswith(event)]

        (line,) = wait_for(lines, what=event)
        return line


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with machine.broker:
        yield machine


@pytest.mark.parametrize("seconds", [HOUR, pytest.param(-HOUR, marks=pytest.mark.slow)])
def test_a_clock_that_is_set_moves_no_deadline(machine: Machine, seconds: int) -> None:
    channel = machine.channel
    channel.call("queue.declare", queue="unused", arguments={"x-expires": 1_500})
    machine.publish(LONG, SHORT)
    machine.clock.set(seconds)
    machine.publish(LONG, SHORT)
    wait_depth(channel, SHORT, 0)
    assert channel.depth(LONG) == 2
    assert abs(machine.reported("the machine's clock was set: deadlines stay")["by_seconds"] - seconds) < 10
    wait_for(lambda: is_missing(machine, "unused"), what="the end of a queue that nobody uses")


def is_missing(machine: Machine, queue: str) -> bool:
    channel = machine.broker.connect().channel()
    try:
        channel.call("queue.declare", queue=queue, passive=True)
    except Closed as closed:
        return closed.code == 404
    return False


@pytest.mark.parametrize("seconds", [HOUR, pytest.param(-HOUR, marks=pytest.mark.slow)])
def test_stored_deadlines_are_exact_within_a_boot(machine: Machine, seconds: int) -> None:
    machine.publish(LONG, SHORT)
    machine.restart(seconds)
    wait_depth(machine.channel, SHORT, 0)
    assert machine.channel.depth(LONG) == 1
    reported = machine.reported("the machine's clock was set while the node was down: deadlines stay")
    assert abs(reported["by_seconds"] - seconds) < 10


def test_after_another_boot_the_clock_says_how_much_time_has_passed(machine: Machine) -> None:
    machine.publish(LONG, SHORT)
    machine.restart(HOUR, another_boot=True)
    assert [machine.channel.depth(queue) for queue in (LONG, SHORT)] == [0, 0]
    assert machine.reported("the machine was rebooted: its clock says")["assumed_seconds"] >= HOUR
    machine.publish(LONG)
    machine.restart(HOUR)
    assert machine.channel.depth(LONG) == 1


def test_a_clock_that_is_behind_after_another_boot_gives_no_message_more_time(machine: Machine) -> None:
    machine.publish(LONG, SHORT)
    machine.restart(-HOUR, another_boot=True)
    wait_depth(machine.channel, SHORT, 0)
    assert machine.channel.depth(LONG) == 1
    reported = machine.reported("the machine was rebooted, and its clock is behind: no time is assumed")
    assert HOUR - 60 < reported["behind_seconds"] <= HOUR


def test_an_operators_stop_lasts_as_long_as_it_was_to(machine: Machine) -> None:
    stopped = machine.broker.call("flow_stop", **NAMES, author="me", reason="", seconds=600)
    machine.clock.set(HOUR)
    (stop,) = wait_for(lambda: stops_at(machine, stopped["until"] + HOUR), what="the stop by the clock as it is now")
    assert stop["number"] == stopped["number"]


def test_people_read_the_machines_clock(machine: Machine) -> None:
    machine.clock.set(HOUR)
    machine.channel.call("queue.declare", queue="dead")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 0}
    machine.channel.call("queue.declare", queue="q", arguments=dead_letters)
    soon = time.time() + HOUR - 60

    def time_of_death() -> float:
        machine.publish("q")
        got = wait_for(lambda: machine.channel.get("dead"), what="a dead letter")
        return float(got.properties["headers"]["x-death"][0]["time"].seconds)

    wait_for(lambda: time_of_death() > soon, what="a dead letter of that time")
    telemetry = machine.broker.directory / "data" / "telemetry"
    wait_for(lambda: any(row["ts"] / 1e6 > soon for row in rows(telemetry, "shard")), what="telemetry of that time")


NAMES = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))


def stops_at(machine: Machine, until: float) -> list[dict[str, Any]]:
    """Return the operators' stops that end at `until`, give or take ten seconds."""
    found: list[dict[str, Any]] = machine.broker.call("flow_stops")
    return [stop for stop in found if abs(stop["until"] - until) < 10]
