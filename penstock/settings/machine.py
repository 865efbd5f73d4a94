"""Resources of the machine, for settings that default to a share of them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from math import ceil
from pathlib import Path

import psutil

from penstock.settings.control_groups import cores_limit, memory_limit


def usable_cores() -> int:
    """Cores this process may run on; a fraction of a core, as control groups may allow, counts whole."""
    cores = len(os.sched_getaffinity(0))
    limit = cores_limit()
    return cores if limit is None else min(cores, ceil(limit))


def half_the_cores() -> int:
    """Half of the cores this process may run on, at least 1."""
    return max(1, usable_cores() // 2)


def usable_memory() -> int:
    """Bytes of memory this node may use: the machine's, or its control groups' limit where that is lower."""
    machine: int = psutil.virtual_memory().total
    limit = memory_limit()
    return machine if limit is None else min(limit, machine)


def free_disk(path: Path) -> int:
    """Free bytes on the disk of a directory, which need not exist yet."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(there).free


def stored_bytes(data: Path) -> int:
    """Bytes of the stores in a data directory."""
    total = 0
    for path in data.glob("shards/*/**/*.mdb"):
        with suppress(OSError):  # deleted meanwhile, or not readable: then opening it fails later
            total += path.stat().st_size
    return total
