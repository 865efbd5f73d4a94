from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from load.processes import MIB, allow_open_files, cpu_seconds, family, kill, memory

PARENT = """
import subprocess, sys
child = "import sys; kept = bytearray(b'x' * 40 * 2**20); print('ready', flush=True); sys.stdin.read()"
print("alone", flush=True)
sys.stdin.readline()
with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    print(process.pid, flush=True)
    sys.stdin.readline()
    process.communicate()
"""


def test_a_tree_is_measured_with_its_children() -> None:
    """A child's 40 MiB count for its parent, a separate process: the test's own may have a broker or Spark below."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == b"alone\n"
        before = memory(parent.pid)
        parent.stdin.write(b"\n")
        child = int(parent.stdout.readline())
        assert [process.pid for process in family(parent.pid)] == [parent.pid, child]
        with_child = memory(parent.pid)
        assert with_child.measure == before.measure
        assert with_child.nbytes - before.nbytes > 35 * MIB
        parent.communicate(b"\n")


def test_a_tree_is_killed() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        members = family(parent.pid)
        assert len(members) == 2
        kill(parent)
        assert not any(psutil.pid_exists(member.pid) for member in members)
        kill(parent)


def test_cpu_time_grows() -> None:
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) == before:
        sum(range(100_000))


def test_nobodys_process_is_named() -> None:
    with pytest.raises(ValueError, match="no process 4194999"):
        memory(4194999)  # above the highest pid of Linux


def test_more_files_than_may_be_opened() -> None:
    allow_open_files(16)
    with pytest.raises(ValueError, match="open files are needed"):
        allow_open_files(2**62)
