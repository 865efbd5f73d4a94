"""Memory that a process has freed and keeps, and its return to the kernel."""

from __future__ import annotations

import os

from penstock.process.node_memory import private_memory
from penstock.process.process import give_back_buffers

# Less idle memory than this need not be returned, bytes; in small nodes a 32nd of the node's limit.
LEAST = 128 << 20
SHARE = 32
# Checks after which memory that was idle all the time is returned: earlier, the next burst would fault every page in.
CHECKS = 10


class IdleMemory:
    """Memory of this process beyond its contents: freed, and kept for later allocations (`process.keep_buffers`).

    `negligible` is how much need not be returned, `least_idle` the least idle memory of late; `not_returnable` is how
    much of it could not be returned, or never was idle. All in bytes; `limit` is the memory of all processes of the
    node.
    """

    def __init__(self, limit: int) -> None:
        self.negligible = min(LEAST, limit // SHARE)
        self.not_returnable = 0
        self.least_idle = 0
        self.checks = 0

    def give_back(self, held: int, scarce: bool = False) -> None:
        """Return idle memory to the kernel if it has exceeded the contents (`held` bytes) for some time, or at once if
        it is large and memory is scarce; called once a second.
        """
        idle = max(private_memory(os.getpid()) - held, 0)
        self.not_returnable = min(self.not_returnable, idle)
        self.least_idle = min(self.least_idle, idle) if self.checks else idle
        self.checks += 1
        if scarce:
            self._give_back(held, idle > self.not_returnable + self.negligible)
        elif self.checks == CHECKS:
            self._give_back(held, self.least_idle > self.not_returnable + max(self.negligible, held))

    def _give_back(self, held: int, much: bool) -> None:
        self.checks = 0
        if much:
            give_back_buffers()
            self.not_returnable = max(private_memory(os.getpid()) - held, 0)
