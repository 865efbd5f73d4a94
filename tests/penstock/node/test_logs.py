"""Log lines of a process, as they reach standard error."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
import structlog

from penstock.node import logs
from penstock.node.log_limit import PEER_LINES

PROGRAM = """
import logging
from penstock.node.logs import configure, get_logger
from penstock.settings import Settings
log = get_logger(part="x")
configure(Settings(log_level="info"), "shard", 2)
log.debug("not written")
log.info("queue asks", queue="q", depth=5, raw=b"\\xff")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("a bug")
    logging.getLogger("asyncio").warning("from %s", "elsewhere", exc_info=True)
"""


def test_json_where_no_terminal_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    asked, bug, other = map(json.loads, done.stderr.splitlines())
    assert asked.pop("timestamp").endswith("Z")
    assert asked == {
        "role": "shard",
        "index": 2,
        "part": "x",
        "level": "info",
        "event": "queue asks",
        "queue": "q",
        "depth": 5,
        "raw": "b'\\xff'",
    }
    assert (bug["event"], bug["level"]) == ("a bug", "error")
    assert bug["exception"].endswith("ZeroDivisionError: division by zero")
    assert (other["event"], other["level"], other["role"]) == ("from elsewhere", "warning", "shard")
    assert "ZeroDivisionError" in other["exception"]


HOSTILE = """
from penstock.node.logs import configure, get_logger
from penstock.settings import Settings
configure(Settings(log_level="info"), "shard", 2)
name = b"caf\\xff".decode("utf-8", "surrogateescape")
endless = []
endless.append(endless)
get_logger().info("said " + name, queue=name, table={name: [name]}, number=1 << 70, endless=endless, depth=5, of=None)
"""


def test_what_json_cannot_say_is_said_as_it_can_be() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=True)
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["event"], line["queue"], line["depth"], line["of"]) == ("said caf\ufffd", "caf\ufffd", 5, None)
    assert line["table"] == "{'caf\\udcff': ['caf\\udcff']}"
    assert (line["number"], line["endless"]) == (str(1 << 70), "[[...]]")


MANY = """
import logging
from penstock.node.logs import configure, get_logger
from penstock.settings import Settings
configure(Settings(log_level="info"), "shard", 2)
log = get_logger()
for number in range(100):
    log.warning("refused", number=number, peer=f"10.0.0.1:{number}")
log.warning("refused", peer="10.0.0.2:1")
log.info("another thing", peer="10.0.0.1:1")
for number in range(50):
    logging.getLogger("asyncio").error(f"different each time: {number}")
"""


def test_of_very_many_lines_a_second_the_rest_is_counted() -> None:
    """The count is logged at the latest when the process ends."""
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    refused = [line for line in lines if line["event"] == "refused"]
    more = {line["of"]: line for line in lines if line["event"].startswith("and ")}
    assert [line["number"] for line in refused[:-1]] == list(range(PEER_LINES))
    assert refused[-1]["peer"] == "10.0.0.2:1"
    assert len([line for line in lines if line["event"] == "another thing"]) == 1
    assert more["refused"].pop("timestamp")
    assert more["refused"] == {
        "role": "shard",
        "index": 2,
        "level": "warning",
        "event": "and 80 more",
        "of": "refused",
        "peer": "10.0.0.1",
        "lines": 80,
    }
    assert (more["asyncio"]["event"], more["asyncio"]["level"]) == ("and 30 more", "error")


OVER = """
import sys
from penstock.node.logs import configure, get_logger
from penstock.settings import Settings
configure(Settings(log_level="info"), "shard", 2)
for number in range(21):
    get_logger().info("stop", number=number)
sys.stdin.read()
"""


def test_the_rest_is_told_when_the_second_is_over() -> None:
    """The count is logged though the process goes on and logs nothing more."""
    with subprocess.Popen(
        [sys.executable, "-c", OVER], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr and child.stdin
        lines = [json.loads(child.stderr.readline()) for _ in range(PEER_LINES + 1)]
        assert (lines[-1]["event"], lines[-1]["of"]) == ("and 1 more", "stop")
        child.stdin.close()


class Timer:
    """A timer for the limiter that a test fires."""

    latest: Timer | None = None

    def __init__(self, _seconds: float, due: Callable[[], None]) -> None:
        self.due = due

    def start(self) -> None:
        Timer.latest = self

    @classmethod
    def fire(cls) -> None:
        timer, cls.latest = cls.latest, None
        assert timer is not None
        timer.due()


def test_of_each_second_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a second that began while the timer of the previous one was running."""
    now = 100.0
    said: list[tuple[str, int]] = []
    monkeypatch.setattr(logs.threading, "Timer", Timer)
    limiter = logs.Limiter(lambda level, event: said.append((level, event["lines"])), lambda: now)

    def log(lines: int) -> None:
        for _ in range(lines):
            with suppress(structlog.DropEvent):
                limiter.process(None, "info", {"event": "stop"})

    log(PEER_LINES + 1)
    now = 101.0
    log(PEER_LINES + 2)
    assert said == [("info", 1)]
    now = 101.5
    Timer.fire()
    now = 102.5
    Timer.fire()
    assert said == [("info", 1), ("info", 2)]
    assert Timer.latest is None


LEVELS = """
from penstock.node.logs import configure, get_logger, set_level
from penstock.settings import Settings
import logging
log = get_logger(part="x")
configure(Settings(log_level="warning"), "shard", 2)
log.info("not written")
set_level("debug")
log.debug("first")
logging.getLogger("asyncio").debug("second")
set_level("error")
log.warning("not written")
logging.getLogger("asyncio").warning("not written")
"""


def test_the_level_may_change() -> None:
    done = subprocess.run([sys.executable, "-c", LEVELS], capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["first", "second"]


def test_readable_lines_on_a_terminal() -> None:
    mine, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
    os.close(mine)
    assert child.wait() == 0
    lines = text.decode().splitlines()
    assert "queue asks" in lines[0]
    assert "{" not in lines[0]
    assert any(line.startswith("Traceback") for line in lines)
    assert not any("not written" in line for line in lines)


def test_lines_that_are_not_taken_stop_nobody() -> None:
    """A full disk does not stop the process, whose lines are written again once there is room."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM + "\nprint('still here')"], stdout=subprocess.PIPE, stderr=full, text=True
        )
    assert done.stdout == "still here\n"
