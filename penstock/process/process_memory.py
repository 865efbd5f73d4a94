"""What the processes of a node use of the machine's memory."""

from __future__ import annotations

import os

import psutil

from penstock.memory.gauges import Gauges
from penstock.node.node import Role
from penstock.process.process import give_back_buffers

# What is less need not go back, octets; in small nodes a 32nd part of the node's limit.
LEAST = 128 << 20
SHARE = 32
# After so many looks what was idle all the time goes back: sooner, and the next burst would fault every page in again.
LOOKS = 10
# Between two looks at what processes share since they were forked, and the octets from which on that is not looked at.
SHARED_LOOKS = 60
LARGE = 256 << 20


class NodeMemory:
    """Octets that all processes of the node have for themselves, as the kernel says.

    What they share, with each other or with files, is not counted: gauges, arenas, and what the kernel keeps of stores
    and can do without. Pages that processes share since they were forked count once, in equal parts. To find these the
    kernel goes through all pages of a process, so that is seldom done, and not once a process is large: then it is as
    it was.
    """

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._shared: dict[int, int] = {}
        self._looks = 0

    def look(self) -> int:
        """The octets now. It may be called every second."""
        if self._looks % SHARED_LOOKS == 0:
            self._shared = {pid: octets for pid, octets in self._shared.items() if octets_of(pid) >= LARGE}
        self._looks += 1
        return sum(self._private(pid) for pid in self._pids())

    def _private(self, pid: int) -> int:
        octets = octets_of(pid)
        if pid not in self._shared and octets:
            self._shared[pid] = shared_memory(pid)
        return max(octets - self._shared.get(pid, 0), 0)

    def _pids(self) -> list[int]:
        gauges = self._gauges
        places: list[tuple[Role, int]] = [("supervisor", 0), ("router", 0), ("console", 0)]
        places += [("shard", index) for index in range(gauges.shards)]
        places += [("acceptor", index) for index in range(gauges.acceptors)]
        return [pid for role, index in places if (pid := gauges.process_read(role, index).pid)]


class IdleMemory:
    """What this process has beyond what it holds: freed, and kept for what may come (`process.keep_buffers`).

    `negligible` is how much need not go back, `least` how much was idle of late; `stays` is how much of it could not be
    given back, or never was idle. Octets; `limit` is the memory of all processes of the node.
    """

    def __init__(self, limit: int) -> None:
        self.negligible = min(LEAST, limit // SHARE)
        self.stays = 0
        self.least = 0
        self.looks = 0

    def look(self, held: int, scarce: bool = False) -> None:
        """Once a second: give it back if it has been more than what is held (octets) for some time, or at once if it
        is much and memory is scarce.
        """
        idle = max(private_memory(os.getpid()) - held, 0)
        self.stays = min(self.stays, idle)
        self.least = min(self.least, idle) if self.looks else idle
        self.looks += 1
        if scarce:
            self._give_back(held, idle > self.stays + self.negligible)
        elif self.looks == LOOKS:
            self._give_back(held, self.least > self.stays + max(self.negligible, held))

    def _give_back(self, held: int, much: bool) -> None:
        self.looks = 0
        if much:
            give_back_buffers()
            self.stays = max(private_memory(os.getpid()) - held, 0)


def private_memory(pid: int) -> int:
    """Octets of a process that no file is behind, those too that it shares since it was forked. psutil.Error if there
    is no such process.
    """
    memory = psutil.Process(pid).memory_info()
    octets: int = memory.rss - memory.shared
    return octets


def octets_of(pid: int) -> int:
    """The same; 0 if it has just died, or no more files can be opened."""
    try:
        return private_memory(pid)
    except (psutil.Error, OSError):
        return 0


def shared_memory(pid: int) -> int:
    """Octets of that which count for other processes, as their parts of what they share since they were forked
    (proc(5), smaps_rollup); 0 where the kernel does not say.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return 0
    kibibytes = {line[0]: int(line[1]) for line in lines if line[-1] == b"kB"}
    own = kibibytes.get(b"Pss_Anon:")
    return 0 if own is None else (kibibytes[b"Anonymous:"] - own) << 10
