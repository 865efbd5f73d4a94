"""A child's name and end, seen from outside: each test runs a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from penstock.process import process
from penstock.process.process import NAME_MAX, process_name, record_parent
from tests.twins import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.long

ENTER = (
    "import sys; from pathlib import Path; from penstock.process import process; process.enter(Path({!r}), 'shard', 3)"
)


def run(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_names_keep_their_index() -> None:
    assert process_name("acceptor", 0) == "pstk-acceptor-0"
    assert process_name("shard", 12) == "pstk-shard-12"
    assert process_name("acceptor", 123) == "pstk-accept-123"
    assert all(len(process_name("acceptor", index)) <= NAME_MAX for index in (0, 10, 100))


def test_a_child_is_named_in_ps(tmp_path: Path) -> None:
    record_parent(tmp_path)
    child = run(ENTER.format(str(tmp_path)) + "; print(open('/proc/self/comm').read(), end=''); "
                "print(open('/proc/self/cmdline').read().rstrip('\\0'))")  # fmt: skip
    out, err = child.communicate()
    assert (out, err, child.returncode) == ("pstk-shard-3\npstk-shard-3\n", "", 0)


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    child = ENTER.format(str(tmp_path)) + "; import signal; print('entered', flush=True); signal.pause()"
    parent = run(
        f"""
        import os, subprocess, sys
        from pathlib import Path
        from penstock.process.process import record_parent
        record_parent(Path({str(tmp_path)!r}))
        child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
        child.stdout.readline()
        print(child.pid, flush=True)
        child.wait()
        """
    )
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    parent.communicate()
    wait_for(lambda: not psutil.pid_exists(pid), what="the end of the child")


def test_a_child_whose_parent_is_gone_does_not_begin(tmp_path: Path) -> None:
    gone = run("pass")
    gone.communicate()
    (tmp_path / "supervisor.pid").write_text(str(gone.pid))
    child = run(ENTER.format(str(tmp_path)) + "; print('begun')")
    out, err = child.communicate()
    assert out == ""
    assert err == f"the supervisor (pid {gone.pid}) is gone\n"
    assert child.returncode == 1


def test_terminate_calls_stop_in_the_loop() -> None:
    child = run(
        """
        import asyncio
        from penstock.process.process import on_terminate
        async def main():
            stop = asyncio.Event()
            on_terminate(asyncio.get_running_loop(), stop.set)
            print("up", flush=True)
            await stop.wait()
        asyncio.run(main())
        """
    )
    assert child.stdout
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate()
    assert (err, child.returncode) == ("", 0)


def test_open_files_are_raised_to_what_is_allowed() -> None:
    child = run(
        """
        import resource
        from penstock.process.process import raise_open_files
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        print(raise_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        """
    )
    out, _ = child.communicate()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert out == f"{hard} {hard}\n"


def ended(program: str, directory: Path) -> int:
    """Return how a program that kills itself has ended (waitid(2), si_code), where core dumps are allowed."""
    allowed = "import os, resource, signal; from penstock.process.process import forbid_core_dumps\n"
    allowed += (
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]; resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", allowed + program], cwd=directory, env={"PYTHONPATH": str(ROOT)})
    found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert found is not None and child.wait() < 0
    return found.si_code


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_process_that_may_not_leaves_no_core_dump(number: signal.Signals, tmp_path: Path) -> None:
    dies = f"os.kill(os.getpid(), {int(number)})"
    if ended(dies, tmp_path) != os.CLD_DUMPED:
        pytest.skip("this machine leaves no core dumps")
    for file in tmp_path.iterdir():
        file.unlink()
    assert ended(f"forbid_core_dumps(); {dies}", tmp_path) == os.CLD_KILLED
    assert ended(f"forbid_core_dumps(); os.fork() and os.wait(); {dies}", tmp_path) == os.CLD_KILLED
    assert not [*tmp_path.iterdir()]


def test_a_c_library_that_cannot_be_told_about_buffers_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """musl has neither mallopt nor malloc_trim."""
    monkeypatch.setattr(process, "_libc", SimpleNamespace())
    process.keep_buffers()
    process.give_back_buffers()
