"""`penstock top`: what it shows of a node, and that it follows one."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from ops.samples import Samples
from ops.status import NotRunning
from ops.top import bar, by_urgency, depth_bar, figures
from tests.broker import Broker
from tests.ops.conftest import ROOT
from tests.raw import Client
from tests.waiting import PATIENCE, wait_for


def queue(**facts: Any) -> dict[str, Any]:
    usual = {"ready": 0, "unacked": 0, "whole_bytes": 0, "stop_count": 0, "resume_count": 0, "stop_bytes": 0}
    return {**usual, "resume_bytes": 0, **facts}


@pytest.mark.parametrize(("value", "shown"), [(0, "░░░░"), (1, "█░░░"), (4, "████"), (9, "████")])
def test_a_bar_is_full_at_its_most(value: int, shown: str) -> None:
    assert bar(value, 4, 4) == shown
    assert bar(value, 0, 4) == "░░░░"


def test_a_depth_stands_against_its_marks() -> None:
    assert depth_bar(queue(ready=9)) == ""
    marks = {"stop_count": 100, "resume_count": 50}
    empty, half, over = (depth_bar(queue(ready=ready, **marks)) for ready in (0, 60, 200))
    assert [at for at, cell in enumerate(empty) if cell == "|"] == [9, 19]
    assert [at for at, cell in enumerate(half) if cell == "|"] == [9, 19]
    assert half.count("█") > empty.count("█") == 0
    assert over.replace("|", "█") == "█" * 24 and over.index("|") == 6
    nearer = depth_bar(queue(ready=1, whole_bytes=90, stop_bytes=100, resume_bytes=90, **marks))
    assert nearer.count("█") > 10, "the bytes are nearer to their mark"


def test_queues_that_hold_producers_come_first_then_the_fullest_then_the_deepest() -> None:
    marks = {"stop_count": 100, "resume_count": 50, "vhost": "/", "saturated": False}
    rows = [
        queue(name="deep", vhost="/", saturated=False, ready=5000),
        queue(name="deeper", vhost="/", saturated=False, ready=9000),
        queue(name="half", ready=50, **marks),
        queue(name="bytes", ready=1, whole_bytes=80, stop_bytes=100, **marks),
        queue(name="resuming", ready=60, **(marks | {"saturated": True})),
    ]
    assert [row["name"] for row in by_urgency(rows)] == ["resuming", "bytes", "half", "deeper", "deep"]


@pytest.mark.broker
def test_samples_follow_a_node(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="full", arguments={"x-flow-stop-count": 5})
        channel.call("queue.declare", queue="empty")
        samples = Samples(broker.directory / "data")
        first = samples.next()
        assert first.node["published_per_second"] == 0
        for _ in range(8):
            channel.publish(b"x", "full")

        def saturated() -> bool:
            status = samples.next()
            return any(each["saturated"] for each in status.queues) and "held" in figures(status)[1]

        wait_for(saturated)
    with pytest.raises(NotRunning):
        samples.next()


@pytest.mark.broker
def test_it_is_shown_on_a_terminal_until_q(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        client.channel().call("queue.declare", queue="orders", arguments={"x-flow-stop-count": 5})
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
        command = [sys.executable, "-m", "ops", "top", "--data", str(broker.directory / "data"), "--every", "0.1"]
        done = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs)
        before = termios.tcgetattr(theirs)
        seen = b""
        while seen.count(b"orders") < 3:
            seen += os.read(ours, 4096)
        os.write(ours, b"q")
        while done.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 4096)
        assert done.wait(PATIENCE) == 0
        assert termios.tcgetattr(theirs) == before
        os.close(theirs)
        os.close(ours)
        for screen in seen.decode(errors="replace").split("\x1b[H")[1:]:
            assert screen.count("\n") <= 24


def test_no_node_is_one_line_and_exit_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops", "top", "--data", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "") and len(done.stderr.splitlines()) == 1
