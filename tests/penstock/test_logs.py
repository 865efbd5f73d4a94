"""Log lines of a process, as they reach standard error."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

PROGRAM = """
import logging
from penstock.logs import configure, get_logger
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
from penstock.logs import configure, get_logger
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
from penstock.logs import FewLines, configure, get_logger
from penstock.settings import Settings
configure(Settings(log_level="info"), "shard", 2)
lines = FewLines(get_logger())
for number in range(100):
    lines.info(5.0 + number / 1000, "stop", number=number)
lines.tell_more(6.0)
lines.info(6.5, "stop", number=100)
"""


def test_of_very_many_lines_a_second_the_rest_is_counted() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["number"] for line in lines[:20]] == list(range(20))
    assert [(line["event"], line.get("count"), line.get("number")) for line in lines[20:]] == [
        ("more lines of this kind", 80, None),
        ("stop", None, 100),
    ]


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
    """As on a full disk: the process goes on, and is heard again when there is room."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM + "\nprint('still here')"], stdout=subprocess.PIPE, stderr=full, text=True
        )
    assert done.stdout == "still here\n"
