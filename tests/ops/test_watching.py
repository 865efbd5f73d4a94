"""What is printed again and again: in its place on a terminal, one after the other in a pipe; Ctrl-C ends it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import pytest

from tests.ops.conftest import ROOT, StartNode, heeds_signals
from tests.waiting import PATIENCE

PROGRAM = """
from itertools import count
from ops.watching import watch
numbers = count(1)
watch(lambda: f"number {next(numbers)}\\n" + "line\\n" * LINES, 0.01)
print("the end")
"""


def program(lines: int) -> list[str]:
    return [sys.executable, "-c", PROGRAM.replace("LINES", str(lines))]


def test_in_a_pipe_one_follows_the_other() -> None:
    with subprocess.Popen(
        program(1), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds_signals
    ) as done:
        assert done.stdout is not None
        found = [done.stdout.readline() for _ in range(5)]
        done.send_signal(signal.SIGINT)
        rest, errors = done.communicate(timeout=PATIENCE)
    assert found == [b"number 1\n", b"line\n", b"\n", b"number 2\n", b"line\n"]
    assert (done.returncode, errors) == (0, b"")
    assert rest.endswith(b"the end\n")


def test_on_a_terminal_it_stays_in_its_place() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    done = subprocess.Popen(program(9), cwd=ROOT, env=environment, stdout=theirs, preexec_fn=heeds_signals)
    os.close(theirs)
    seen = b""
    while b"number 2" not in seen or not seen.endswith(b"\x1b[J"):
        seen += os.read(ours, 4096)
    done.send_signal(signal.SIGINT)
    while b"the end" not in seen:
        seen += os.read(ours, 4096)
    assert done.wait(PATIENCE) == 0
    os.close(ours)
    first, second = seen.decode().split("\x1b[H")[1:3]
    lines = first.split("\x1b[K\r\n")
    assert lines == ["number 1", "line", "line", "7 more lines on a higher terminal, or in a pipe", "\x1b[J"]
    assert second.startswith("number 2")


@pytest.mark.broker
def test_a_status_is_watched_until_its_reader_stops(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    command = [sys.executable, "-m", "ops", "status", "--data", str(node.data), "--watch", "--every", "0.1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        assert done.stdout is not None and done.stderr is not None
        summaries = 0
        while summaries < 2:
            summaries += done.stdout.readline().startswith(b"node on")
        done.stdout.close()
        assert (done.wait(PATIENCE), done.stderr.read()) == (0, b"")


@pytest.mark.broker
@pytest.mark.parametrize("words", [["status"], ["status", "--json"]], ids=" ".join)
def test_a_reader_may_stop_after_a_line(words: list[str], start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "ops", *words, "--data", str(node.data)]
    done = subprocess.run(command, cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
