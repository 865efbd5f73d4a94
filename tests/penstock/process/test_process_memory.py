"""Idle memory, measured by the process that has it: each test runs a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.process.process_memory import CHECKS

pytestmark = pytest.mark.long

FORKS = """
    import os, signal, sys
    from pathlib import Path
    from penstock.memory.gauges import Gauges, READY
    from penstock.process.node_memory import NodeMemory, bytes_of

    def fork(role, index):
        pid = os.fork()
        if not pid:
            signal.pause()
        gauges.process_write(role, index, pid=pid, incarnation=1, state=READY, started_us=1, restarts=0)
        return pid

    path = Path(sys.argv[1])
    gauges = Gauges.create(path, epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid())
    block = bytes([1]) * (100 << 20)
    places = [("router", 0), ("console", 0), ("balancer", 0), ("shard", 0), ("acceptor", 0)]
    pids = [fork(*place) for place in places]
    node = NodeMemory(gauges)
    print(node.measure() >> 20, sum(map(bytes_of, pids)) >> 20)
    os.kill(pids.pop(), signal.SIGKILL)
    os.wait()
    print(node.measure() >> 20)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
"""

PROGRAM = """
    import json, os
    from penstock.process import process, process_memory
    from penstock.process.node_memory import private_memory
    from penstock.process.process_memory import IdleMemory

    def check(held, scarce=False, times=process_memory.CHECKS):
        for _ in range(times):
            idle.give_back(held << 20, scarce)
        used.append((private_memory(os.getpid()) >> 20) - before)

    process.keep_buffers()
    idle, used, before = IdleMemory(8 << 30), [], 0
    check(0)
    before = used.pop()
    blocks = [bytes([i % 256]) * 100_000 for i in range(4 * 1048)]
    check(400)
    del blocks[: {gone}]
    {checks}
    print(json.dumps(used))
"""


def checks(gone: int, *calls: str) -> list[int]:
    """Return the MiB in use after each check: 400 at the first, then `gone` tenths of a MiB are freed."""
    program = textwrap.dedent(PROGRAM).format(gone=gone, checks="; ".join(calls))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found: list[int] = json.loads(ended.stdout)
    return found


def test_what_forked_processes_share_counts_once(tmp_path: Path) -> None:
    """Five processes share 100 MiB: four of the node, and the one that they were forked from."""
    program = textwrap.dedent(FORKS)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "gauges")], capture_output=True, text=True, check=True
    )
    once, each, without_one = map(int, ended.stdout.split())
    assert 80 <= once < 140
    assert each >= 400
    assert once - 40 < without_one < once


def test_what_is_idle_goes_back_once_it_is_more_than_what_is_held() -> None:
    held, little, much = checks(1500, "check(250)", "del blocks[:1500]", "check(100)")
    assert held > 380
    assert little > 380
    assert much < 140


def test_where_memory_is_scarce_it_goes_back_at_once() -> None:
    _, much, little = checks(1500, "check(250, True, 1)", "del blocks[:1000]", "check(150, True, 1)")
    assert much < 290
    assert little > 240


def test_what_was_in_use_lately_is_kept() -> None:
    """A burst every few seconds reuses the memory of the one before it."""
    freed = "del blocks[:1500]", f"check(100, times={CHECKS - 1})"
    taken = "blocks = [bytes([1]) * 100_000 for _ in range(4 * 1048)]", "check(400, times=1)"
    found = checks(1500, *freed, *taken, "del blocks[:3000]", f"check(100, times={CHECKS - 1})", "check(100, times=1)")
    assert min(found[:-1]) > 380
    assert checks(1500, "del blocks[:1500]", f"check(100, times={CHECKS})")[-1] < 140


def test_what_does_not_go_back_is_not_asked_for_again() -> None:
    """These 400 MiB are in use, though nothing accounts for them."""
    noted = "process_memory.give_back_buffers = lambda: used.append(-1)"
    found = checks(0, noted, "check(0)", "check(0)")
    assert found.count(-1) == 1 and found[1] == -1
