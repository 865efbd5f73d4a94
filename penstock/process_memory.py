"""What the processes of a node use of the machine's memory."""

from __future__ import annotations

from contextlib import suppress

import psutil

from penstock.gauges import Gauges
from penstock.node import Role


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
        with suppress(psutil.Error):  # it has just died
            if pid:
                memory = psutil.Process(pid).memory_info()
                total += memory.rss - memory.shared
    return total
