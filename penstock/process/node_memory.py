"""The memory that a node's processes use, as the kernel reports it."""

from __future__ import annotations

import psutil

from penstock.memory.gauges import Gauges
from penstock.node.runtime_paths import Role

# Checks between two measurements of the pages shared since a fork, and the size in bytes beyond which they are skipped.
SHARED_CHECKS = 60
LARGE = 256 << 20


class NodeMemory:
    """Private memory of all processes of the node, in bytes, as the kernel reports it.

    Memory shared between processes or with files is not counted: gauges, arenas, and pages of stores that the kernel
    caches and can drop. Pages shared since a fork count once, in equal parts. To find them the kernel walks all pages
    of a process, so they are measured rarely, and not once a process is large: then the last measurement stays.
    """

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._shared: dict[int, int] = {}
        self._checks = 0

    def measure(self) -> int:
        """The current bytes; may be called every second."""
        if self._checks % SHARED_CHECKS == 0:
            self._shared = {pid: nbytes for pid, nbytes in self._shared.items() if bytes_of(pid) >= LARGE}
        self._checks += 1
        return sum(self._private(pid) for pid in self._pids())

    def _private(self, pid: int) -> int:
        nbytes = bytes_of(pid)
        if pid not in self._shared and nbytes:
            self._shared[pid] = shared_memory(pid)
        return max(nbytes - self._shared.get(pid, 0), 0)

    def _pids(self) -> list[int]:
        gauges = self._gauges
        alone: tuple[Role, ...] = ("supervisor", "router", "console", "balancer", "relay")
        places: list[tuple[Role, int]] = [(role, 0) for role in alone]
        places += [("shard", index) for index in range(gauges.shards)]
        places += [("acceptor", index) for index in range(gauges.acceptors)]
        return [pid for role, index in places if (pid := gauges.process_read(role, index).pid)]


def private_memory(pid: int) -> int:
    """Anonymous memory of a process, in bytes, including pages shared since a fork. psutil.Error if there is no such
    process.
    """
    memory = psutil.Process(pid).memory_info()
    nbytes: int = memory.rss - memory.shared
    return nbytes


def bytes_of(pid: int) -> int:
    """The same as `private_memory`; 0 if the process has just died, or no more files can be opened."""
    try:
        return private_memory(pid)
    except (psutil.Error, OSError):
        return 0


def shared_memory(pid: int) -> int:
    """The bytes of `private_memory` that belong to other processes, as their parts of pages shared since a fork
    (proc(5), smaps_rollup); 0 if the kernel does not report them.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return 0
    kibibytes = {line[0]: int(line[1]) for line in lines if line[-1] == b"kB"}
    own = kibibytes.get(b"Pss_Anon:")
    return 0 if own is None else (kibibytes[b"Anonymous:"] - own) << 10
