"""Unexpected exceptions: chores and tasks leave the process running, failures in mid-change end it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import structlog
from structlog.testing import CapturingLogger

from penstock.node.failures import FAILURE_STATUS, Chores


def test_a_chore_that_fails_is_done_again_and_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = CapturingLogger()
    monkeypatch.setattr("penstock.node.failures.log", structlog.wrap_logger(lines, processors=[]))
    done: list[str] = []

    async def scenario() -> None:
        ended = asyncio.Event()

        def fails() -> None:
            done.append("fails")
            if done.count("fails") <= 3:
                raise OSError("too many open files")

        def works() -> None:
            done.append("works")
            if done.count("works") == 5:
                ended.set()

        chores = Chores(asyncio.get_running_loop(), 0.001, fails, works)
        await ended.wait()
        chores.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert done == ["fails", "works"] * 5
    assert [(line.method_name, line.kwargs["event"]) for line in lines.calls] == [
        ("error", "chore failed"), ("info", "chore recovered")
    ]  # fmt: skip
    assert lines.calls[1].kwargs["failures"] == 3


ENDS = """
import asyncio, sys
from penstock.node.failures import end_on_failure, report
from penstock.node.logs import configure
from penstock.settings import Settings

def fails():
    raise KeyError("half")

async def task():
    raise KeyError("a task's")

async def main():
    configure(Settings(), "shard", 0)
    loop = asyncio.get_running_loop()
    end_on_failure(loop)
    if sys.argv[1] == "callback":
        loop.call_soon(fails)
    elif sys.argv[1] == "turn":
        report(loop, "a turn failed", KeyError("half"))
    else:
        loop.create_task(task())
    await asyncio.sleep(0.05)
    import gc; gc.collect()
    print("goes on")

(__import__("uvloop") if sys.argv[2] == "uvloop" else asyncio).run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("where", ["callback", "turn", "task"])
def test_a_process_ends_in_the_middle_of_a_change(where: str, loop: str) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS, where, loop], capture_output=True, text=True)
    if where == "task":
        assert (done.returncode, done.stdout) == (0, "goes on\n")
    else:
        assert (done.returncode, done.stdout) == (FAILURE_STATUS, "")
        assert "process ends in the middle of a change" in done.stderr and "KeyError: 'half'" in done.stderr
