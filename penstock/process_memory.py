"""What the processes of a node use of the machine's memory."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from penstock.gauges import Gauges
from penstock.node import Role
from penstock.process import give_back_buffers

# What is less need not go back, octets; in small nodes a 32nd part of the node's limit.
LEAST = 128 << 20
SHARE = 32
# After so many looks what was idle all the time goes back: sooner, and the next burst would fault every page in again.
LOOKS = 10


def own_memory(gauges: Gauges) -> int:
    """Octets that all processes of the node have for themselves, as the kernel says.

    What they share, with each other or with files, is not counted: gauges, arenas, and what the kernel keeps of stores
    and can do without.
    """
    places: list[tuple[Role, int]] = [("supervisor", 0), ("router", 0), ("console", 0)]
    places += [("shard", index) for index in range(gauges.shards)]
    places += [("acceptor", index) for index in range(gauges.acceptors)]
    total = 0
    for role, index in places:
        pid = gauges.process_read(role, index).pid
        with suppress(psutil.Error, OSError):  # it has just died, or no more files can be opened
            if pid:
                total += private_memory(pid)
    return total


class IdleMemory:
    """What this process has beyond what it holds: freed, and kept for what may come (`process.keep_buffers`).

    `much` is how much need not go back, `least` how much was idle of late; `stays` is how much of it could not be given
    back, or never was idle. Octets; `limit` is the memory of all processes of the node.
    """

    def __init__(self, limit: int) -> None:
        self.much = min(LEAST, limit // SHARE)
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
            self._give_back(held, idle > self.stays + self.much)
        elif self.looks == LOOKS:
            self._give_back(held, self.least > self.stays + max(self.much, held))

    def _give_back(self, held: int, much: bool) -> None:
        self.looks = 0
        if much:
            give_back_buffers()
            self.stays = max(private_memory(os.getpid()) - held, 0)


def private_memory(pid: int) -> int:
    """Octets that a process shares with nobody. psutil.Error if there is no such process."""
    memory = psutil.Process(pid).memory_info()
    octets: int = memory.rss - memory.shared
    return octets
