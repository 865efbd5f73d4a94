"""The fork server and its template, in a process that is their supervisor."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

TEMPLATE = """
import sys, time
from pathlib import Path
from ops import template
from penstock.process import process

def main(runtime, index, incarnation):
    process.enter(runtime, "shard", index)
    print("began", incarnation, flush=True)
    time.sleep(600)

template.serve(Path(sys.argv[1]), int(sys.argv[2]), {"shard": template.Program(main)})()
"""
SUPERVISE = """
import os, signal, subprocess, sys, time, types
from pathlib import Path
import psutil
from ops import forkserver, template
from ops.forkserver import ForkServer
from penstock.process import process

def fork_first():
    module = sys.modules["sleeping"] = types.ModuleType("sleeping")
    exec(sys.argv[2].partition("template.serve")[0], module.__dict__)
    template.MODULES = {"shard": "sleeping"}
    return template.fork()

first = fork_first() if sys.argv[3] == "forked" else None
runtime = Path(sys.argv[1])
process.record_parent(runtime)
process.adopt_orphans()
forks = ForkServer([sys.executable, "-c", sys.argv[2]], runtime, {"acceptor": [0]}, first)

def begin():
    forks.start(time.monotonic())
    forks.read_greetings(dict.fromkeys(forks.awaited, 1))
    assert forks.ready and forks.due is None
    return next(child for child in psutil.Process().children() if child.name() == "pstk-template")

def end(child):
    while (status := child.poll()) is None:
        time.sleep(0.01)
    return status

def reap(*known):
    while (status := forks.reap(frozenset(known), time.monotonic())) is None:
        time.sleep(0.01)
    return status

template = begin()
"""


@pytest.fixture(params=["forked", "run"])
def supervise(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], None]:
    """Runs a program in a supervisor whose template has begun; raises an error if it fails or takes too long. The first
    template is forked, or run by the command.
    """

    def run(program: str) -> None:
        whole = SUPERVISE + textwrap.dedent(program) + "\nforks.close()\nassert not psutil.Process().children()\n"
        command = [sys.executable, "-c", whole, str(tmp_path), TEMPLATE, request.param]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert "began" not in done.stdout, "standard output is the supervisor's"

    return run


def test_who_is_forked_is_a_child_with_a_name_and_a_group_of_its_own(supervise: Callable[[str], None]) -> None:
    supervise(
        """
        forked = [forks.fork("shard", index, 1) for index in (3, 4)]
        for index, child in zip((3, 4), forked):
            it = psutil.Process(child.pid)
            assert (it.ppid(), os.getpgid(child.pid)) == (os.getpid(), child.pid)
            while it.name() != f"pstk-shard-{index}":
                time.sleep(0.01)
            assert child.poll() is None
            child.send_signal(signal.SIGTERM)
            assert end(child) == -signal.SIGTERM
        """,
    )


def test_what_is_raised_in_who_is_forked_is_its_end_alone(supervise: Callable[[str], None]) -> None:
    supervise(
        """
        assert end(forks.fork("acceptor", 0, 1)) == 1  # there is nothing to run for that
        assert end(forks.fork("router", 0, 1)) == 1
        child = forks.fork("shard", 0, 1)
        child.send_signal(signal.SIGKILL)
        assert end(child) == -signal.SIGKILL
        """,
    )


def test_a_template_that_dies_takes_along_only_whom_it_did_not_tell_of(supervise: Callable[[str], None]) -> None:
    supervise(
        """
        known = forks.fork("shard", 0, 1)
        unknown = forks.fork("shard", 1, 1)
        template.kill()
        assert reap(known.pid) == -signal.SIGKILL
        assert not forks.ready and forks.due is not None and forks.deaths == 1
        assert psutil.Process(known.pid).status() != psutil.STATUS_ZOMBIE
        assert not psutil.pid_exists(unknown.pid)
        begin()
        for child in (forks.fork("shard", 1, 2), known):
            child.send_signal(signal.SIGTERM)
            assert end(child) == -signal.SIGTERM
        """,
    )


def test_a_template_that_does_not_answer_is_killed(supervise: Callable[[str], None]) -> None:
    supervise(
        """
        forkserver.ANSWER_SECONDS = 0.2
        template.suspend()
        try:
            forks.fork("shard", 0, 1)
        except TimeoutError:
            pass
        else:
            raise AssertionError("a suspended process has answered")
        while template.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        forks.read_greetings(dict.fromkeys(forks.awaited, 1))  # the request that it left unread resets the socket
        assert not forks.ready and reap() == -signal.SIGKILL
        """,
    )


def test_a_dead_template_is_said_to_be_one(supervise: Callable[[str], None]) -> None:
    supervise(
        """
        template.kill()
        while template.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        try:
            forks.fork("shard", 0, 1)
        except OSError:
            pass
        else:
            raise AssertionError("a dead process has answered")
        assert not forks.ready
        """,
    )
