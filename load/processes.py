"""The cost of a broker by the operating system's account: memory and CPU time of its process tree."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import psutil

MIB = 1024 * 1024
GONE_SECONDS = 20.0
SETTLE_SECONDS_MAX = 5.0
SETTLE_INTERVAL_SECONDS = 0.25
SETTLED_BYTES = MIB // 2


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process tree in bytes. `pss` counts a page shared by n processes as 1/n in each; `rss` counts it in
    full in each (an upper bound, used where the system does not let us read PSS).
    """

    nbytes: int
    measure: Literal["pss", "rss"]


def family(pid: int) -> list[psutil.Process]:
    """Return the process and all its descendants. ValueError if there is no such process."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        raise ValueError(f"there is no process {pid}") from None


def living(pid: int) -> list[psutil.Process]:
    """Return the process and all its descendants; an empty list once it is gone."""
    try:
        return family(pid)
    except ValueError:
        return []


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a process and all its descendants, and wait until they are gone."""
    members = living(process.pid)
    for each in members:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(members, timeout=GONE_SECONDS)


def of_each(pid: int, ask: Callable[[psutil.Process], float]) -> float:
    """Sum a figure over the tree; a process that ends between being listed and being asked counts 0."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            total += ask(process)
    return total


def memory(pid: int) -> Memory:
    """Return the present memory of the tree."""
    try:
        return Memory(int(of_each(pid, lambda process: process.memory_full_info().pss)), "pss")
    except psutil.AccessDenied:
        return Memory(int(of_each(pid, lambda process: process.memory_info().rss)), "rss")


def settled_memory(pid: int) -> Memory:
    """Return the memory of the tree once two samples differ by less than half a MiB, or after five seconds."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    before = memory(pid)
    while True:
        time.sleep(SETTLE_INTERVAL_SECONDS)
        now = memory(pid)
        if abs(now.nbytes - before.nbytes) < SETTLED_BYTES or time.monotonic() > deadline:
            return now
        before = now


def cpu_seconds(pid: int) -> float:
    """Return user and system time of the tree, of each process since its start."""
    return of_each(pid, lambda process: process.cpu_times().user + process.cpu_times().system)


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files to `count`. ValueError if the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise ValueError(f"{count} open files are needed, this process (pid {os.getpid()}) may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
