"""`penstock relay`, on a process of relays that answers as a test says."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ops.cli import app
from penstock.control.control import Refusal
from penstock.control.control_server import ControlServer
from penstock.control.questions import Question, answer
from penstock.memory.gauges import DEAD, READY, Gauges
from tests.ops.commanded import Commanded, serving
from tests.twins import ROOT
from tests.waiting import PATIENCE

LONG = "amqp.a-very-long-name-of-a-machine.example.com"
RELAYS: list[dict[str, Any]] = [
    {
        "name": "orders", "state": "failing", "since": "2026-11-29T12:00:01.234+00:00", "relayed": 12345,
        "reason": f"{LONG}:5672: 404 NOT_FOUND - no queue 'orders' in vhost 'shop'", "source": f"{LONG}:5672/shop",
        "queue": "orders", "target": "127.0.0.1:5672/shop", "target_queue": None, "target_exchange": "events",
    },
    {
        "name": "mails", "state": "running", "since": "2026-11-29T12:00:02.345+00:00", "relayed": 0, "reason": "",
        "source": "this node", "queue": "mails", "target": "h:1/%2F", "target_queue": "m", "target_exchange": None,
    },
]  # fmt: skip


@pytest.fixture
def relays(commanded: Commanded) -> Iterator[Commanded]:
    """A node with a process of relays."""
    with Gauges.open(commanded.facts.gauges) as gauges:
        gauges.process_write("relay", 0, pid=os.getpid(), incarnation=3, state=READY, started_us=1, restarts=2)
    questions: dict[str, Question] = {"relays": (lambda: RELAYS, {}), "relay_restart": (restarted, {"name": str})}
    server = ControlServer(
        commanded.facts.control_of("relay", 0, 3),
        lambda command, arguments, answered: answered(answer(questions, command, arguments)),
    )
    with serving([server]):
        yield commanded


def restarted(name: str) -> None:
    if name not in ("orders", "mails"):
        raise Refusal("not_found", f"there is no relay '{name}'")


def test_relays_are_listed_with_what_holds_them(relays: Commanded) -> None:
    assert relays.json(app, "relay", "list") == RELAYS
    assert relays.rows(app, "relay", "list") == [
        [
            "orders", "failing", "12345", f"{LONG}:5672: 404 NOT_FOUND - no queue 'orders' in vhost 'shop'",
            f"orders of {LONG}:5672/shop", "exchange events of 127.0.0.1:5672/shop", "2026-11-29T12:00:01",
        ],
        ["mails", "running", "0", "", "mails of this node", "m of h:1/%2F", "2026-11-29T12:00:02"],
    ]  # fmt: skip


def test_a_relay_is_restarted_if_there_is_one_of_its_name(relays: Commanded) -> None:
    assert relays.run(app, "relay", "restart", "orders") == "relay 'orders' restarts\n"
    assert relays.refusal(app, "relay", "restart", "none") == "relay 0: there is no relay 'none'"


def test_a_node_without_relays_has_none(commanded: Commanded) -> None:
    assert commanded.run(app, "relay", "list") == "no relays\n"
    assert commanded.json(app, "relay", "list") == []
    assert commanded.refusal(app, "relay", "restart", "orders") == "there is no relay 'orders'"


def test_a_process_that_has_died_is_named(commanded: Commanded) -> None:
    with Gauges.open(commanded.facts.gauges) as gauges:
        gauges.process_write("relay", 0, pid=0, incarnation=1, state=DEAD, started_us=1, restarts=0)
    assert commanded.refusal(app, "relay", "list").startswith("relay 0 does not answer: ")


@pytest.mark.parametrize("width", [80, 100])
def test_the_list_fits_a_terminal(relays: Commanded, width: int) -> None:
    """The reason takes several lines there, and no word of it is cut."""
    shown = on_terminal(relays, width)
    assert max(map(len, shown.splitlines())) <= width
    cells = [line.split("│")[4] for line in shown.splitlines() if line.count("│") > 4]
    assert "".join(cell.strip() for cell in cells).replace(" ", "") == RELAYS[0]["reason"].replace(" ", "")


def on_terminal(node: Commanded, width: int) -> str:
    """Return what the list prints on a terminal of a width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    words = [sys.executable, "-m", "ops", "relay", "list", "--data", str(node.data)]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "NO_COLOR": "1"}
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        shown = b""
        with suppress(OSError):  # the end of a terminal (EIO)
            while read := terminal.read(4096):
                shown += read
    assert process.wait(PATIENCE) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r", "")
